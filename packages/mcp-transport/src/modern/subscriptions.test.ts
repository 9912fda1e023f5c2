import { handlerDispatcher } from '@x/internal/testing/undici'
import { deferred } from '@x/mcp-testing'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { HttpClient } from '../http/http-client.ts'
import { advertisedChanges } from '../json-rpc.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import { parseServerUrl } from '../server-url.ts'
import { SessionInfo } from '../session-info.ts'
import { SessionKeeper } from '../session-keeper.ts'
import type { TransportError } from '../transport-error.ts'
import { resolveLimits, resolveTimeouts } from '../transport-options.ts'
import { ModernProtocol } from './modern-protocol.ts'

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
    const dispatcher = handlerDispatcher(({ signal }) => {
      opened.resolve(signal)
      return new Response(new ReadableStream(), {
        headers: { 'content-type': 'text/event-stream' },
      })
    })
    const reports: TransportError[] = []
    const answers: JsonRpcMessage[] = []
    const report = (error: TransportError): void => void reports.push(error)
    const url = parseServerUrl('http://server.test/mcp')
    const protocol = new ModernProtocol({
      http: new HttpClient({
        url,
        dispatcher,
        connectMs: 1000,
        headers: {},
        limits: resolveLimits(),
        authProvider: undefined,
        observer: {},
      }),
      keeper: new SessionKeeper({
        info: new SessionInfo(),
        serverUrl: url.identity,
        principal: undefined,
        report,
      }),
      timeouts: resolveTimeouts({ idleMs: 0, silentMs: 0 }),
      reconnect: { firstMs: 1, maxMs: 1, maxAttempts: 0 },
      listen: true,
      identity: {
        protocolVersion: '2026-07-28',
        capabilities: {},
        clientInfo: undefined,
        logLevel: undefined,
      },
      discovered: { supportedVersions: ['2026-07-28'], capabilities: {} },
      isResumed: false,
      toolHeaders: undefined,
      recovery: undefined,
      deliver: (answer) => answers.push(answer),
      report,
    })
    const params = { uri: 'file:///a' }
    await protocol.send({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params }, {})
    const signal = await opened.promise
    await vi.advanceTimersByTimeAsync(29_999)
    expect(signal.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(answers).toMatchObject([
      { id: 1, error: { data: { code: 'UNREACHABLE', cause: { code: 'TIMEOUT' } } } },
    ])
    expect(signal.aborted).toBe(true)
    expect(vi.getTimerCount()).toBe(0)
    expect(reports).toEqual([]) // the answer to the subscription has the error
  })
})
