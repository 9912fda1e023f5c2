import { handlerDispatcher } from '@x/internal/testing/undici'
import { deferred } from '@x/mcp-testing'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { HttpClient } from '../http/http-client.ts'
import { advertisedChanges } from '../json-rpc.ts'
import { parseServerUrl } from '../server-url.ts'
import type { TransportError } from '../transport-error.ts'
import { resolveLimits } from '../transport-options.ts'
import { Listener } from './subscriptions.ts'

describe('what a server advertises', () => {
  test.each([
    [{}, {}],
    [{ tools: {}, prompts: true, resources: { subscribe: true } }, {}],
    [{ tools: { listChanged: 'yes' } }, {}],
    [{ tools: { listChanged: true } }, { toolsListChanged: true }],
    [
      { prompts: { listChanged: true }, resources: { listChanged: true } },
      { promptsListChanged: true, resourcesListChanged: true },
    ],
  ])('%j', (capabilities, changes) => {
    expect(advertisedChanges(capabilities)).toEqual(changes)
  })
})

describe('a stream that is open, and never acknowledged', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => vi.useRealTimers())

  test('is closed after 30 seconds', async () => {
    const opened = deferred<AbortSignal>()
    const dispatcher = handlerDispatcher(({ signal }) => {
      opened.resolve(signal)
      return new Response(new ReadableStream(), {
        headers: { 'content-type': 'text/event-stream' },
      })
    })
    const reports: TransportError[] = []
    const listener = new Listener({
      http: new HttpClient({
        url: parseServerUrl('http://server.test/mcp'),
        dispatcher,
        connectMs: 1000,
        headers: {},
        limits: resolveLimits(),
        observer: {},
      }),
      identity: { protocolVersion: '2026-07-28', capabilities: {}, clientInfo: undefined },
      filter: { toolsListChanged: true },
      reconnect: { firstMs: 1, maxMs: 1, maxAttempts: 0 },
      idleMs: 0,
      random: () => 0.5,
      nextId: () => 'a-1',
      deliver: () => {},
      report: (error) => reports.push(error),
    })
    const signal = await opened.promise
    await vi.advanceTimersByTimeAsync(29_999)
    expect(signal.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    await expect(listener.acknowledged).rejects.toMatchObject({
      code: 'UNREACHABLE',
      cause: { code: 'TIMEOUT' },
    })
    expect(signal.aborted).toBe(true)
    expect(vi.getTimerCount()).toBe(0)
    expect(reports).toEqual([]) // whoever waits for the acknowledgement is events
  })
})
