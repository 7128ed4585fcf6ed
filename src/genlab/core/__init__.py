"""What every other package stands on: params, artifacts, engine, tracking, console errors."""
