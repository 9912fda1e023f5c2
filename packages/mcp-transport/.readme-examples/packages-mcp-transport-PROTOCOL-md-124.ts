interface SessionRecord {
  v: 1
  serverUrl: string // a digest stands for the query
  principal?: string
  era: 'legacy' | 'modern'
  eraCheckedAt: string // ISO 8601
  epoch: number // number of the session with this server, from 1
  sessionId?: string
  protocolVersion?: string
  initializeResult?: {
    protocolVersion: string
    capabilities: object
    serverInfo: object
    instructions?: string
  }
  initializeParamsHash?: string // capabilities and clientInfo of the client
  createdAt: string
  updatedAt: string
}
export {}
