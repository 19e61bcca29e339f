"""The engine room: async loops that carry values between the pure core and the outside. Decisions are made below."""
