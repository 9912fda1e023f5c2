import { SessionInfo } from '@x/mcp-transport'
import type { SessionRecord } from '@x/mcp-transport'
import { describe, expect, test } from 'vitest'
import { McpClient, SessionInfoFactory } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { startSetting, textOf } from './setting.ts'
import type { Setting } from './setting.ts'

/** A store that keeps the record of another process when the test sets it. */
class SharedInfo extends SessionInfo {
  override readonly durable: boolean = true
  readonly listeners: Set<(sessionId: string) => void> = new Set<(sessionId: string) => void>()
  /** What the store contains after pending writes. */
  found: SessionRecord | undefined

  override onSuperseded(listener: (sessionId: string) => void): () => void {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  override async flush(): Promise<void> {
    const { found } = this
    this.found = undefined
    if (found !== undefined) await this.keep(found)
  }

  async keep(record: SessionRecord): Promise<void> {
    const mine = await this.getSessionId()
    await this.setRecord(record)
    for (const listener of this.listeners) listener(mine ?? '')
  }
}

interface Rivals extends Setting {
  readonly info: SharedInfo
  /** Record of a session that another process has opened, with one item in its counter. */
  readonly rival: SessionRecord
}

class SharedFactory extends SessionInfoFactory {
  readonly info: SharedInfo = new SharedInfo()

  override createSession(): SessionInfo {
    return this.info
  }
}

async function startRivals(options: McpClientOptions = {}): Promise<Rivals> {
  const factory = new SharedFactory()
  const setting = await startSetting({ client: { sessionInfoFactory: factory, ...options } })
  const other = new SharedFactory()
  await using opener = new McpClient({ url: setting.proxy.url }, { sessionInfoFactory: other })
  await opener.callTool('counter_add')
  const rival = await other.info.getRecord()
  if (rival === undefined) throw new Error('The other process has stored no record')
  return { ...setting, info: factory.info, rival }
}

const isDelete = ({ httpMethod }: { readonly httpMethod: string }): boolean =>
  httpMethod === 'DELETE'

describe('a session that the store replaced with another one', () => {
  test('is left for the other one without a handshake, and terminated', async () => {
    await using rivals = await startRivals()
    const { client, info, rival, server, proxy, observed } = rivals
    await client.callTool('echo', { text: 'a' })
    const mine = await client.getSessionId()
    const initializes = server.count('initialize')
    await info.keep(rival)
    await proxy.waitFor((one) => isDelete(one) && one.end === 'complete')
    expect(textOf(await client.callTool('counter_add'))).toBe('counter is 2')
    expect(await client.getSessionId()).toBe(rival.sessionId)
    expect(proxy.exchanges.filter(isDelete).map(({ sessionId }) => sessionId)).toEqual([mine])
    expect(server.sessions).toEqual([rival.sessionId])
    expect(server.count('initialize')).toBe(initializes)
    const replaced = observed.filter(({ event }) => event === 'sessionReplaced')
    expect(replaced.map(({ payload }) => payload)).toEqual([
      expect.objectContaining({ reason: 'Another process stored its session first' }),
    ])
    expect(JSON.stringify(observed)).not.toContain(mine)
    expect(observed.filter(({ event }) => event === 'log')).toEqual([])
  })

  test('passes its log level and subscriptions on to the other one', async () => {
    await using rivals = await startRivals()
    const { client, info, rival, server } = rivals
    await client.setLoggingLevel('warning')
    await info.keep(rival)
    await client.callTool('echo', { text: 'a' })
    const levels = server.received.filter(({ rpcMethod }) => rpcMethod === 'logging/setLevel')
    expect(levels.map(({ sessionId }) => sessionId)).toContain(rival.sessionId)
  })

  test('stays open while a call is in flight in it; dispose() closes both in time', async () => {
    await using rivals = await startRivals()
    const { client, info, rival, server, proxy } = rivals
    const slow = client.callTool('slow')
    const settled = slow.catch((error: unknown) => error)
    await server.waitFor(({ toolName }) => toolName === 'slow')
    await info.keep(rival)
    await client.callTool('echo', { text: 'a' })
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(0)
    await client.dispose()
    expect(await settled).toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
    expect(server.sessions).toEqual([rival.sessionId])
    expect(info.listeners.size).toBe(0)
  })

  test('is terminated by dispose() if the store reports it only then', async () => {
    await using rivals = await startRivals()
    const { client, info, rival, server, proxy } = rivals
    await client.callTool('echo', { text: 'a' })
    info.found = rival
    await client.dispose()
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
    expect(server.sessions).toEqual([rival.sessionId])
    expect(await info.getSessionId()).toBe(rival.sessionId)
  })

  test('causes only a warning if it cannot be terminated', async () => {
    await using rivals = await startRivals()
    const { client, info, rival, proxy, observed } = rivals
    await client.callTool('echo', { text: 'a' })
    proxy.inject({ match: isDelete, action: { status: 500 } })
    await info.keep(rival)
    await proxy.waitFor((one) => isDelete(one) && one.end === 'complete')
    expect(textOf(await client.callTool('counter_add'))).toBe('counter is 2')
    await client.dispose()
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(1)
    expect(observed.filter(({ event }) => event === 'log')).toHaveLength(1)
  })

  test('changes nothing if it is not the current session', async () => {
    await using rivals = await startRivals()
    const { client, info, proxy, observed } = rivals
    await client.callTool('echo', { text: 'a' })
    const mine = await client.getSessionId()
    for (const listener of info.listeners) listener('an-older-session')
    await client.callTool('echo', { text: 'b' })
    expect(await client.getSessionId()).toBe(mine)
    expect(proxy.count({ httpMethod: 'DELETE' })).toBe(0)
    expect(observed.filter(({ event }) => event === 'sessionReplaced')).toEqual([])
  })
})
