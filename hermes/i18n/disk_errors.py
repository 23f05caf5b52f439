"""What helps when a file cannot be written: by what the system said, not by what is most often so."""

import errno

from hermes.i18n.messages import N_

_FULL = (errno.ENOSPC, errno.EDQUOT)


def advise_on_write_error(error: OSError) -> str:
    """Return what a person may do about a file that could not be written."""
    if error.errno in _FULL:
        return N_("The disk is full, or your share of it: free some space and try again.")
    if error.errno == errno.EFBIG:
        return N_("Raise the process's file size limit.")
    if error.errno == errno.EROFS:
        return N_("The file system is read-only; often its disk fails. Save what is on it first.")
    return N_("Fix its permissions.")
