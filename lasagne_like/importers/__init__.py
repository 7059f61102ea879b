"""Parameters that come from other libraries, and go back to them."""

from lasagne_like.importers.cudnn import *  # noqa: F403
