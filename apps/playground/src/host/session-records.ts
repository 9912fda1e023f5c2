import type { DebugStateStore } from '@x/agents-debugstate/server'
import { sessionRecordFrom } from '@x/mcp-transport'
import type { SessionRecord } from '../timeline/events.ts'
import { shortId } from '../timeline/mask.ts'

/** Reads the sessions that the debug-state service keeps for an agent, in the order of their servers. */
export async function readSessionRecords(
  store: DebugStateStore,
  agentId: string,
): Promise<SessionRecord[]> {
  const entries = await store.list(agentId, 100)
  const records = entries
    .filter(({ key }) => key.endsWith(':record'))
    .map(async ({ key, updatedAt }): Promise<SessionRecord[]> => {
      const value = await store.get({ agentId, key })
      if (value === undefined) return []
      const record = sessionRecordFrom(JSON.parse(new TextDecoder().decode(value.bytes)))
      if (record === undefined) return []
      const { sessionId, protocolVersion: revision, era } = record
      const [, , server = key] = key.split(':') // mcpsession:{folder}:{server}:record
      return [
        { server, sessionId: sessionId && shortId(sessionId), revision, era, savedAt: updatedAt },
      ]
    })
  return (await Promise.all(records)).flat()
}
