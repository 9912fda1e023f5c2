interface SessionRecord {
  createdAt: number // milliseconds since 1970
  scope?: string // namespace for files of anonymous callers
  handshake: { protocolVersion: string; capabilities: object; clientInfo: object }
  level?: string // of logging/setLevel
  followed: string[] // subscriptions, at most 256
  listener?: string // stream on which the client listens, or listened last
}
export {}
