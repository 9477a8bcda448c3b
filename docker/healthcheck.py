"""The container's health check: does the service in it say that it is ready?

MOLDAU_HEALTH_URL names another place than the broker's, for a container that runs something else.
"""

import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("MOLDAU_HEALTH_URL", "http://127.0.0.1:9640/health/ready")

try:
    with urllib.request.urlopen(URL, timeout=4) as answer:
        print(answer.read(500).decode(errors="replace"))
except urllib.error.HTTPError as error:
    print(f"{URL}: {error.code} {error.read(500).decode(errors='replace')}")
    sys.exit(1)
except OSError as error:
    print(f"{URL}: {error}")
    sys.exit(1)
