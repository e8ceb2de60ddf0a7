"""What the page takes unchanged from npm: `web/vendor/`."""
