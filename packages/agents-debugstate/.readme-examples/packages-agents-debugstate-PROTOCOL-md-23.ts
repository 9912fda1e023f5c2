interface KeyList {
  agentId: string
  keys: {
    key: string
    bytes: number // size of the value
    updatedAt: string // ISO 8601
    expiresAt: string // ISO 8601
  }[]
  truncated: boolean // true if there are more than 1000 keys
}
export {}
