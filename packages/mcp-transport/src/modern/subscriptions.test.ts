import { handlerDispatcher } from '@x/internal/testing/undici'
import { deferred } from '@x/mcp-testing'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { advertisedChanges } from '../json-rpc.ts'
import { SessionInfo } from '../session-info.ts'
import { McpConnection } from '../mcp-connection.ts'

describe('the list changes that a server announces', () => {
  test.each([
    [{}, {}],
    [{ tools: {}, prompts: true, resources: { subscribe: true } }, {}],
    [{ tools: { listChanged: 'yes' } }, {}],
    [{ tools: { listChanged: true } }, { toolsListChanged: true }],
    [
      { prompts: { listChanged: true }, resources: { listChanged: true } },
      { promptsListChanged: true, resourcesListChanged: true },
    ],
  ])('are read from the capabilities %j', (capabilities, changes) => {
    expect(advertisedChanges(capabilities)).toEqual(changes)
  })
})

describe('a stream that the server never acknowledges', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => vi.useRealTimers())

  test('is closed after 30 seconds', async () => {
    const opened = deferred<AbortSignal>()
    const dispatcher = handlerDispatcher(async (request) => {
      const { id, method } = (await request.json()) as { id: string; method: string }
      if (method === 'server/discover') {
        const result = { supportedVersions: ['2026-07-28'], capabilities: {} }
        return Response.json({ jsonrpc: '2.0', id, result })
      }
      opened.resolve(request.signal)
      return new Response(new ReadableStream(), {
        headers: { 'content-type': 'text/event-stream' },
      })
    })
    const reports: Error[] = []
    const url = 'http://server.test/mcp'
    const options = {
      dispatcher,
      era: 'modern',
      timeouts: { idleMs: 0, silentMs: 0 },
      reconnect: { firstMs: 1, maxMs: 1, maxAttempts: 0 },
    } as const
    const connection = new McpConnection(url, options, {
      sessionInfo: new SessionInfo(),
      onNotification: () => {},
      onServerRequest: () => {},
      onError: (error) => reports.push(error),
    })
    await connection.open({ protocolVersion: '2025-11-25', capabilities: {} })
    const outcomes: unknown[] = []
    const request = { method: 'resources/subscribe', params: { uri: 'file:///a' } }
    await connection.send(connection.createCall(request, {}, (outcome) => outcomes.push(outcome)))
    const signal = await opened.promise
    await vi.advanceTimersByTimeAsync(29_999)
    expect(signal.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(outcomes).toMatchObject([{ code: 'UNREACHABLE', cause: { code: 'TIMEOUT' } }])
    expect(signal.aborted).toBe(true)
    expect(vi.getTimerCount()).toBe(0)
    expect(reports).toEqual([]) // the answer to the subscription has the error
  })
})
