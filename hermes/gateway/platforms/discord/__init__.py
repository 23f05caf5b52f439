"""What Discord needs beside its platform: values, requests, and what happens there."""
