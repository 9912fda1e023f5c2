/** Of every POST (2025-11-25, transports, "Sending Messages to the Server"), as a flat list. */
export const POST_HEADERS: readonly string[] = [
  'content-type',
  'application/json',
  'accept',
  'application/json, text/event-stream',
]
