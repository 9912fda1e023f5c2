import type { SessionInfo, SessionRecord } from '@x/mcp-transport'
import { describeSessionInfo } from '@x/internal/testing/session-info'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { closedGate } from '../test/gate.ts'
import { plainService, startScriptedService } from '../test/scripted-service.ts'
import type { Script, ScriptedService } from '../test/scripted-service.ts'
import { SERVER_URL, shopRecord } from '../test/session-records.ts'
import type { DebugStateErrorCode } from './debug-state-client.ts'
import { SessionInfoDebugStateFactory } from './session-info-debug-state-factory.ts'
import type { SessionInfoDebugStateFactoryOptions } from './session-info-debug-state-factory.ts'

const KEY = 'mcpsession:f1:shop'
const TOKEN = 'a-secret-token'
const shop = { slug: 'shop', folderKey: 'f1', mcpUrl: SERVER_URL }

/** An agent in its own process: its service, and its warnings. */
interface Agent extends AsyncDisposable {
  readonly info: SessionInfo
  readonly warnings: DebugStateErrorCode[]
  /** The same warnings in full. */
  readonly texts: string[]
  another(): SessionInfo
}

function startAgent(
  service: ScriptedService,
  options: SessionInfoDebugStateFactoryOptions = {},
): Agent {
  const warnings: DebugStateErrorCode[] = []
  const texts: string[] = []
  const factory = new SessionInfoDebugStateFactory({
    baseUrl: service.baseUrl,
    agentId: 'agent',
    onWarning(warning) {
      warnings.push(warning.code)
      texts.push(JSON.stringify(warning), `${warning.stack}`)
    },
    ...options,
  })
  return {
    info: factory.createSession(shop),
    warnings,
    texts,
    another: () => factory.createSession(shop),
    [Symbol.asyncDispose]: () => factory.close(),
  }
}

/** An agent, and a service with this value, which end with the test. */
async function serving(value?: string) {
  const values = new Map(value === undefined ? [] : [[KEY, value]])
  const service = await startScriptedService(plainService(values))
  onTestFinished(() => service[Symbol.asyncDispose]())
  const agent = startAgent(service)
  onTestFinished(() => agent[Symbol.asyncDispose]())
  return { values, service, agent }
}

const failing = (status: number): Script => {
  return (_, response) => void response.writeHead(status).end('details')
}

describeSessionInfo(
  'SessionInfoDebugState',
  async () => {
    const service = await startScriptedService(plainService(new Map()))
    const agent = startAgent(service)
    return {
      open: () => agent.another(),
      async remove() {
        await agent[Symbol.asyncDispose]()
        await service[Symbol.asyncDispose]()
      },
    }
  },
  { isDurable: true },
)

describe('reading', () => {
  test('requests the value once, and then uses its copy', async () => {
    const record = shopRecord({ affinity: 'a field that we do not know' } as object)
    const { service, agent } = await serving(JSON.stringify(record))
    expect(await agent.info.getSessionId()).toBe('session-1')
    expect(await agent.info.getRecord()).toEqual(record)
    expect(service.lines).toEqual([`GET ${KEY}`])
    expect(agent.info.durable).toBe(true)
    expect(agent.warnings).toEqual([])
  })

  test('is shared by concurrent callers', async () => {
    const { service, agent } = await serving('session-1')
    const ids = await Promise.all(Array.from({ length: 20 }, () => agent.info.getSessionId()))
    expect(new Set(ids)).toEqual(new Set(['session-1']))
    expect(service.lines).toEqual([`GET ${KEY}`])
  })

  test('sends the encoded key, and calls the token function for each request', async () => {
    await using service = await startScriptedService(plainService(new Map()))
    let count = 0
    await using agent = startAgent(service, { token: async () => `token-${++count}` })
    await agent.info.getSessionId()
    await agent.info.setSessionId('session-1')
    await agent.info.flush()
    expect(service.requests[0]?.path).toBe(
      '/agenthub_/design/debugstate/agent/mcpsession%3Af1%3Ashop',
    )
    expect(service.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer token-1',
      'Bearer token-2',
    ])
  })

  test.each([
    ['404', 404, 'not found'],
    ['an empty body', 200, ''],
    ['204', 204, ''],
  ])('treats %s as no session, without a warning', async (_name, status, body) => {
    await using service = await startScriptedService((_, response) => {
      response.writeHead(status).end(body)
    })
    await using agent = startAgent(service)
    expect(await agent.info.getSessionId()).toBeUndefined()
    expect(await agent.info.getRecord()).toBeUndefined()
    expect(agent.warnings).toEqual([])
  })

  test('uses an id without a record of another implementation', async () => {
    const { agent } = await serving('from-python')
    expect(await agent.info.getSessionId()).toBe('from-python')
    expect(await agent.info.getRecord()).toBeUndefined()
  })

  test.each(['two words', 'ümlaut', 'x'.repeat(1025), '<html>\n', '{"error":"no"}', '["a"]'])(
    'uses no value such as %j, and warns',
    async (value) => {
      const { agent } = await serving(value)
      expect(await agent.info.getSessionId()).toBeUndefined()
      expect(agent.warnings).toEqual(['UNEXPECTED_RESPONSE'])
    },
  )

  test('uses no id without a record under a key with a digest', async () => {
    await using service = await startScriptedService((_, response) => void response.end('stray'))
    await using factory = new SessionInfoDebugStateFactory({
      baseUrl: service.baseUrl,
      agentId: 'agent',
      onWarning: () => {},
    })
    const info = factory.createSession({ mcpUrl: SERVER_URL }, { thread: 't1' })
    expect(await info.getSessionId()).toBeUndefined()
  })
})

describe('writing', () => {
  test('puts the record as text', async () => {
    const { values, service, agent } = await serving()
    await agent.info.setRecord(shopRecord())
    await agent.info.flush()
    expect(service.lines).toEqual([`GET ${KEY}`, `PUT ${KEY}`])
    expect(service.requests[1]?.headers['content-type']).toBe('text/plain')
    expect(JSON.parse(values.get(KEY) ?? '')).toEqual(shopRecord())
    await using next = startAgent(service)
    expect(await next.info.getRecord()).toEqual(shopRecord())
  })

  test('puts a bare id', async () => {
    const { values, agent } = await serving()
    await agent.info.setSessionId('session-0')
    await agent.info.flush()
    expect(values.get(KEY)).toBe('session-0')
  })

  test('leaves out the instructions of a record over the limit, and then all but the id', async () => {
    const { values, agent } = await serving()
    const result = { protocolVersion: '2025-11-25', serverInfo: { name: 'shop', version: '1' } }
    const long = 'x'.repeat(65_536)
    const capabilities = { tools: {} }
    await agent.info.setRecord(
      shopRecord({ initializeResult: { ...result, capabilities, instructions: long } }),
    )
    await agent.info.flush()
    expect(JSON.parse(values.get(KEY) ?? '')).toEqual(
      shopRecord({ initializeResult: { ...result, capabilities } }),
    )
    await agent.info.setRecord(
      shopRecord({ initializeResult: { ...result, capabilities: { long } } }),
    )
    await agent.info.flush()
    expect(values.get(KEY)).toBe('session-1')
    expect(agent.warnings).toEqual(['TOO_LARGE'])
  })

  test('keeps a list of tools without a session, and nothing of one over the limit', async () => {
    const { values, agent } = await serving()
    const { sessionId: _id, initializeResult: _result, ...rest } = shopRecord()
    const listed = (description: string): SessionRecord => ({
      ...rest,
      tools: {
        tools: [{ name: 'pay', description }],
        leftOut: [],
        readAt: rest.updatedAt,
        ttlMs: 1,
      },
    })
    await agent.info.setRecord(listed('Pays.'))
    await agent.info.flush()
    expect(JSON.parse(values.get(KEY) ?? '')).toEqual(listed('Pays.'))
    expect(await agent.another().getRecord()).toEqual(listed('Pays.'))
    await agent.info.setRecord(listed('x'.repeat(65_536)))
    await agent.info.flush()
    expect(values.get(KEY)).toBeUndefined()
    expect(agent.warnings).toEqual(['TOO_LARGE'])
  })

  test('refuses an id that no header can hold', async () => {
    const { service, agent } = await serving()
    await agent.info.setSessionId('two words')
    await agent.info.flush()
    expect(service.lines).toEqual([`GET ${KEY}`])
    expect(agent.warnings).toEqual(['REJECTED'])
  })

  test('happens only if something changed', async () => {
    const { service, agent } = await serving('session-1')
    await agent.info.getSessionId()
    await agent.info.setSessionId('session-1')
    await agent.info.flush()
    expect(service.lines).toEqual([`GET ${KEY}`])
    await agent.info.setRecord(shopRecord())
    await agent.info.flush()
    await agent.info.setRecord(shopRecord())
    await agent.info.flush()
    expect(service.lines.slice(1)).toEqual([`PUT ${KEY}`])
  })

  test('sends one write at a time, and then only the newest value', async () => {
    const gate = closedGate()
    const began = closedGate()
    let running = 0
    await using service = await startScriptedService(async ({ method }, response) => {
      if (method === 'GET') return void response.writeHead(404).end()
      expect(++running).toBe(1)
      began.open()
      await gate.opened
      running--
      response.writeHead(204).end()
    })
    await using agent = startAgent(service)
    await agent.info.setRecord(shopRecord()) // does not wait for the service
    await began.opened
    for (let n = 2; n <= 50; n++) await agent.info.setSessionId(`session-${n}`)
    gate.open()
    await agent.info.flush()
    expect(service.requests.map(({ method, body }) => `${method} ${body}`)).toEqual([
      'GET ',
      `PUT ${JSON.stringify(shopRecord())}`,
      'PUT session-50',
    ])
  })

  test('prefers a value that was set during a read', async () => {
    const values = new Map([[KEY, 'old']])
    const asked = closedGate()
    const gate = closedGate()
    await using service = await startScriptedService(async (request, response) => {
      asked.open()
      await gate.opened
      await plainService(values)(request, response)
    })
    await using agent = startAgent(service)
    const reading = agent.info.getSessionId()
    await asked.opened
    await agent.info.setSessionId('new')
    gate.open()
    expect(await reading).toBe('new')
    await agent.info.flush()
    expect(values.get(KEY)).toBe('new')
  })

  test.each([shopRecord({ sessionId: 'session-2' }), undefined])(
    'leaves a record of a newer format in the service, and warns',
    async (record) => {
      const newer = JSON.stringify({ ...shopRecord(), v: 2, more: 'than we know' })
      const { values, agent } = await serving(newer)
      expect(await agent.info.getSessionId()).toBeUndefined()
      await agent.info.setRecord(record)
      await agent.info.flush()
      expect(values.get(KEY)).toBe(newer)
      expect(agent.warnings).toEqual(['UNEXPECTED_RESPONSE'])
      expect(await agent.info.getRecord()).toEqual(record)
    },
  )
})

describe('clearing', () => {
  test('deletes the stored session with flush(), and does not read its id again', async () => {
    const { values, service, agent } = await serving(JSON.stringify(shopRecord()))
    await agent.info.getSessionId()
    await agent.info.setSessionId(undefined)
    expect(await agent.info.getSessionId()).toBeUndefined()
    expect(await agent.info.getRecord()).toBeUndefined()
    await agent.info.flush()
    expect(service.lines.slice(1)).toEqual([`GET ${KEY}`, `DELETE ${KEY}`])
    expect(values.size).toBe(0)
  })

  test('stores a record without a session with flush(), because it holds the era', async () => {
    const { values, service, agent } = await serving(JSON.stringify(shopRecord()))
    const {
      sessionId: _,
      initializeResult: _result,
      ...rest
    } = (await agent.info.getRecord()) ?? {}
    await agent.info.setRecord(rest as SessionRecord)
    expect(service.lines).toEqual([`GET ${KEY}`])
    await agent.info.flush()
    expect(JSON.parse(values.get(KEY) ?? '')).toEqual(rest)
  })

  test('is one PUT if another session follows', async () => {
    const { values, service, agent } = await serving('session-1')
    await agent.info.getSessionId()
    await agent.info.setSessionId(undefined)
    await agent.info.setSessionId('session-2')
    await agent.info.flush()
    expect(values.get(KEY)).toBe('session-2')
    expect(service.lines).toEqual([`GET ${KEY}`, `PUT ${KEY}`])
  })

  test('leaves the session that another process has stored since the last read', async () => {
    const { values, agent } = await serving('session-1')
    await agent.info.getSessionId()
    await agent.info.setSessionId(undefined)
    values.set(KEY, 'session-of-another-process')
    await agent.info.flush()
    expect(values.get(KEY)).toBe('session-of-another-process')
    expect(agent.warnings).toEqual([])
  })

  test('leaves a session that could not be read', async () => {
    let script = failing(500)
    const values = new Map([[KEY, 'session-1']])
    await using service = await startScriptedService((request, response) =>
      script(request, response),
    )
    await using agent = startAgent(service)
    expect(await agent.info.getSessionId()).toBeUndefined()
    script = plainService(values)
    await agent.info.flush() // nothing was set
    await agent.info.setSessionId(undefined)
    await agent.info.flush()
    expect(values.get(KEY)).toBe('session-1')
  })

  test('does not use the deleted id again when the service refused to delete it', async () => {
    await using service = await startScriptedService(({ method }, response) => {
      response.writeHead(method === 'GET' ? 200 : 500).end('session-1')
    })
    await using agent = startAgent(service)
    await agent.info.getSessionId()
    await agent.info.setSessionId(undefined)
    await agent.info.flush()
    expect(await agent.info.getSessionId()).toBeUndefined()
    await agent.info.refresh()
    expect(await agent.info.getSessionId()).toBeUndefined()
  })
})

describe('refreshing', () => {
  test('keeps the copy when the service does not answer', async () => {
    const values = new Map([[KEY, 'session-1']])
    let script = plainService(values)
    await using service = await startScriptedService((request, response) =>
      script(request, response),
    )
    await using agent = startAgent(service)
    await agent.info.getSessionId()
    script = failing(500)
    await agent.info.refresh()
    expect(await agent.info.getSessionId()).toBe('session-1')
  })
})

describe('a failing service never fails the agent, and is reported once', () => {
  const faults: [string, DebugStateErrorCode, Script][] = [
    ['no answer', 'TIMEOUT', () => {}],
    ['half an answer', 'TIMEOUT', (_, response) => void response.write('sess')],
    ['500', 'REJECTED', failing(500)],
    ['a redirect', 'REJECTED', failing(302)],
    ['401', 'UNAUTHORIZED', failing(401)],
    ['403', 'UNAUTHORIZED', failing(403)],
    ['413', 'TOO_LARGE', failing(413)],
    ['a reset', 'UNREACHABLE', (_, response) => void response.socket?.resetAndDestroy()],
    ['a page', 'UNEXPECTED_RESPONSE', (_, response) => void response.end('<html> hi </html>')],
    ['no HTTP', 'UNREACHABLE', (_, response) => void response.socket?.end('garbage\r\n\r\n')],
    ['a huge body', 'TOO_LARGE', (_, response) => void response.end('x'.repeat(1_000_000))],
  ]
  /** Only a fault that ends with the time limit may meet it, also on a slow machine. */
  const timeoutMsOf = (code: DebugStateErrorCode): number => (code === 'TIMEOUT' ? 200 : 20_000)

  test.each(faults)('while it reads: %s', async (_, code, script) => {
    await using service = await startScriptedService(script)
    await using agent = startAgent(service, { timeoutMs: timeoutMsOf(code), token: TOKEN })
    expect(await agent.info.getSessionId()).toBeUndefined()
    expect(await agent.info.getRecord()).toBeUndefined()
    await agent.another().getSessionId()
    expect(agent.warnings).toEqual([code])
    expect(agent.texts.join()).not.toMatch(/secret/)
  })

  test.each(faults.filter(([name]) => !/page|huge|half/.test(name)))(
    'while it writes: %s; the next write tries again',
    async (_, code, fault) => {
      const values = new Map<string, string>()
      let script = fault
      await using service = await startScriptedService((request, response) =>
        script(request, response),
      )
      await using agent = startAgent(service, { timeoutMs: timeoutMsOf(code), token: TOKEN })
      await agent.info.setSessionId('a-secret-session')
      await agent.info.flush()
      expect(agent.warnings).toEqual([code])
      expect(agent.texts.join()).not.toMatch(/secret/)
      expect(await agent.info.getSessionId()).toBe('a-secret-session')
      script = plainService(values)
      await agent.info.setSessionId('a-secret-session')
      await agent.info.flush()
      expect(values.get(KEY)).toBe('a-secret-session')
      expect(agent.warnings).toEqual([code])
    },
  )

  test('with a token function that throws or never resolves', async () => {
    await using service = await startScriptedService(plainService(new Map()))
    const never = new Promise<string>(() => {})
    await using hanging = startAgent(service, { token: () => never, timeoutMs: 50 })
    expect(await hanging.info.getSessionId()).toBeUndefined()
    expect(hanging.warnings).toEqual(['TIMEOUT'])
    await using throwing = startAgent(service, {
      token: () => {
        throw new Error('no token today')
      },
    })
    expect(await throwing.info.getSessionId()).toBeUndefined()
    expect(throwing.warnings).toEqual(['TOKEN'])
    expect(service.requests).toEqual([])
  })

  test.each([Infinity, 2 ** 31])(
    'waits with a limit of %d ms, which no timer can have',
    async (ms) => {
      const values = new Map([[KEY, 'session-1']])
      await using service = await startScriptedService(plainService(values))
      await using agent = startAgent(service, {
        timeoutMs: ms,
        token: () => new Promise((resolve) => setTimeout(resolve, 20, 'token')),
      })
      expect(await agent.info.getSessionId()).toBe('session-1')
      expect(agent.warnings).toEqual([])
    },
  )

  test('ignores a listener that throws', async () => {
    await using service = await startScriptedService(failing(500))
    await using agent = startAgent(service, {
      onWarning: () => {
        throw new Error('the log is full')
      },
    })
    expect(await agent.info.getSessionId()).toBeUndefined()
  })

  test('ends flush() while the service hangs', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    await using service = await startScriptedService(() => {})
    await using agent = startAgent(service, { timeoutMs: 600_000 })
    await agent.info.setSessionId('session-1')
    const flushed = agent.info.flush()
    vi.advanceTimersByTime(5000)
    await flushed
    expect(agent.warnings).toEqual([])
    vi.advanceTimersByTime(600_000) // the factory waits for its request
  })
})
