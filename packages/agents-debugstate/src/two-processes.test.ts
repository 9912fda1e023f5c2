import { describe, expect, test } from 'vitest'
import { SERVER_URL, shopRecord } from '../test/session-records.ts'
import { keyOf, startScriptedService } from '../test/scripted-service.ts'
import { MemoryDebugStateStore, createDebugStateServer } from './server/index.ts'
import { SessionInfoDebugStateFactory } from './session-info-debug-state-factory.ts'
import type { SessionInfo } from '@x/mcp-transport'

interface Shared extends AsyncDisposable {
  /** A separate process, from the view of the service. */
  process(): SessionInfo
  stored(): Promise<string | undefined>
}

async function shareState(scope = {}): Promise<Shared> {
  const server = createDebugStateServer({ store: new MemoryDebugStateStore() })
  const baseUrl = await server.listen()
  const factories: SessionInfoDebugStateFactory[] = []
  const warnings: string[] = []
  const process = (): SessionInfo => {
    const factory = new SessionInfoDebugStateFactory({
      baseUrl,
      agentId: 'agent',
      env: {},
      onWarning: ({ code }) => warnings.push(code),
    })
    factories.push(factory)
    return factory.createSession({ slug: 'shop', mcpUrl: SERVER_URL }, scope)
  }
  return {
    process,
    stored: () => process().getSessionId(),
    async [Symbol.asyncDispose]() {
      await Promise.all(factories.map((factory) => factory.close()))
      await server.close()
      expect(warnings).toEqual([])
    },
  }
}

/** Steps of a client when the server has lost the session. */
async function recover(info: SessionInfo, sessionId: string): Promise<void> {
  await info.refresh()
  await info.setSessionId(undefined)
  await info.setRecord(shopRecord({ sessionId }))
  await info.flush()
}

describe.each([{}, { thread: 't1' }])('two processes that share a state, scope %j', (scope) => {
  test('use the session of the first process when both store one', async () => {
    await using shared = await shareState(scope)
    const [first, second] = [shared.process(), shared.process()]
    await Promise.all([first.getRecord(), second.getRecord()])
    await first.setRecord(shopRecord({ sessionId: 'session-1' }))
    await first.flush()
    await second.setRecord(shopRecord({ sessionId: 'session-2' }))
    await second.flush()
    expect(await second.getSessionId()).toBe('session-1')
    expect(await second.getRecord()).toEqual(shopRecord({ sessionId: 'session-1' }))
    await second.setRecord(shopRecord({ sessionId: 'session-2', principal: 'late' }))
    await second.flush()
    expect(await shared.stored()).toBe('session-1')
  })

  test('keep one replacement when both lose the session at once', async () => {
    await using shared = await shareState(scope)
    const origin = shared.process()
    await origin.setRecord(shopRecord({ sessionId: 'dead' }))
    await origin.flush()
    const [first, second] = [shared.process(), shared.process()]
    expect(await Promise.all([first.getSessionId(), second.getSessionId()])).toEqual([
      'dead',
      'dead',
    ])
    await Promise.all([recover(first, 'new-1'), recover(second, 'new-2')])
    const stored = await shared.stored()
    expect(['new-1', 'new-2']).toContain(stored)
    for (const info of [first, second]) {
      await info.refresh()
      expect(await info.getSessionId()).toBe(stored)
    }
  })

  test('do not clear a newer session of the other process', async () => {
    await using shared = await shareState(scope)
    const first = shared.process()
    await first.setRecord(shopRecord({ sessionId: 'dead' }))
    await first.flush()
    const second = shared.process()
    await second.getSessionId()
    await first.setRecord(shopRecord({ sessionId: 'alive' }))
    await first.flush()
    await second.setSessionId(undefined)
    await second.flush()
    expect(await shared.stored()).toBe('alive')
  })
})

test('replaces an id whose record is never stored', async () => {
  await using shared = await shareState({ thread: 't1' })
  const [first, second] = [shared.process(), shared.process()]
  await Promise.all([first.getSessionId(), second.getSessionId()])
  await first.setSessionId('session-1')
  await first.flush()
  await second.setRecord(shopRecord({ sessionId: 'session-2' }))
  await second.flush()
  expect(await second.getSessionId()).toBe('session-2')
  expect(await shared.stored()).toBe('session-2')
  // It was only slow: in this case the first one switches.
  await first.setRecord(shopRecord({ sessionId: 'session-1' }))
  await first.flush()
  expect(await first.getSessionId()).toBe('session-2')
  expect(await shared.stored()).toBe('session-2')
})

test('does not treat its own write as a write of another process if the answer was lost', async () => {
  const values = new Map<string, { text: string; etag: string }>()
  let losesAnswers = true
  await using service = await startScriptedService(({ method, path, headers, body }, response) => {
    const key = keyOf(path)
    const stored = values.get(key)
    if (method === 'GET') {
      response.writeHead(stored ? 200 : 404, stored ? { etag: stored.etag } : {})
      response.end(stored?.text)
      return
    }
    const expected = headers['if-none-match'] === '*' ? undefined : headers['if-match']
    if (expected !== stored?.etag) {
      response.writeHead(412).end()
      return
    }
    const etag = `"${service.requests.length}"`
    values.set(key, { text: body, etag })
    if (losesAnswers) response.socket?.resetAndDestroy()
    else response.writeHead(204, { etag }).end()
  })
  await using factory = new SessionInfoDebugStateFactory({
    baseUrl: service.baseUrl,
    agentId: 'agent',
    env: {},
    onWarning: () => {},
  })
  const info = factory.createSession({ slug: 'shop', mcpUrl: SERVER_URL })
  await info.getSessionId()
  await info.setSessionId('session-1')
  await info.flush()
  losesAnswers = false
  await info.setSessionId('session-2')
  await info.flush()
  expect(await info.getSessionId()).toBe('session-2')
  expect(values.get('mcpsession::shop')?.text).toBe('session-2')
})
