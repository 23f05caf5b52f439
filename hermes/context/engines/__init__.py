"""The context engines that come with Hermes, one file each; each has a function `engine` that makes one."""
