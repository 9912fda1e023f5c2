interface SessionRecord {
  v: 1 // format; a reader ignores a record with a higher number, and never overwrites it
  serverUrl: string // without credentials; a query is replaced by a digest
  principal?: string
  era: 'legacy' | 'modern'
  eraCheckedAt: string // ISO 8601
  epoch: number // counts the sessions with this server, from 1
  sessionId?: string
  protocolVersion?: string
  initializeResult?: object // unchanged from the server
  initializeParamsHash?: string
  createdAt: string // ISO 8601
  updatedAt: string // ISO 8601
}
export {}
