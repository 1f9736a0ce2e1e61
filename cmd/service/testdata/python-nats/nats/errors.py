class Error(Exception):
    pass


class TimeoutError(Error):
    pass
