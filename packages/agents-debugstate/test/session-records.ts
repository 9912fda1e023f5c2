import type { SessionRecord } from '@x/mcp-transport'

export const SERVER_URL = 'https://shop.example/mcp'

/** A record of a session with the shop. */
export function shopRecord(changes: Partial<SessionRecord> = {}): SessionRecord {
  return {
    v: 1,
    serverUrl: SERVER_URL,
    era: 'legacy',
    eraCheckedAt: '2026-11-01T10:00:00.000Z',
    epoch: 1,
    sessionId: 'session-1',
    protocolVersion: '2025-11-25',
    initializeResult: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'shop', version: '1.0.0' },
    },
    createdAt: '2026-11-01T10:00:00.000Z',
    updatedAt: '2026-11-01T10:00:00.000Z',
    ...changes,
  }
}
