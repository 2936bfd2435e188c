//! API types and their OpenAPI description.
