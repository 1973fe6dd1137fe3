"""In front of a sanitized library: dlopen without RTLD_DEEPBIND, which AddressSanitizer does not take."""
import os

os.RTLD_DEEPBIND = 0
