// Code of the user fails, or never answers: each call ends, and its outcome is known.
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { deferred, startLegacyServer, startModernServer } from '@x/mcp-testing'
import type { TestTool } from '@x/mcp-testing'
import { SessionInfo } from '@x/mcp-transport'
import { bearer } from '@x/mcp-transport/auth'
import { describe, expect, test, vi } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { ClientHandlers } from '../src/index.ts'
import { rejectionOf, stopClock } from './setting.ts'

/** The questions of a tool, by the handler that answers them. */
const questions = {
  elicitation: {
    method: 'elicitation/create',
    params: { mode: 'form', message: '?', requestedSchema: { type: 'object', properties: {} } },
  },
  sampling: { method: 'sampling/createMessage', params: { messages: [], maxTokens: 5 } },
  roots: { method: 'roots/list' },
} as const
const handlerNames = ['elicitation', 'sampling', 'roots'] as const

function asking(handler: keyof typeof questions): TestTool {
  return {
    name: 'ask',
    run: (_args, { inputResponses }) =>
      inputResponses === undefined
        ? { resultType: 'input_required', inputRequests: { one: questions[handler] } }
        : 'done',
  }
}

function failing(handler: keyof ClientHandlers, error: unknown): ClientHandlers {
  return {
    [handler]: () => {
      throw error
    },
  }
}

const broken = new Error('the model is broken')
const named = (handler: string) =>
  expect.stringContaining(`The handler "${handler}" failed: the model is broken`)

describe.each(handlerNames)('the handler %s', (handler) => {
  test('fails the call of a stateless server with its name and its error', async () => {
    await using server = await startModernServer({ tools: [asking(handler)] })
    const handlers = failing(handler, broken)
    await using client = new McpClient({ url: server.url }, { handlers })
    for (let call = 0; call < 3; call++) {
      const error = await rejectionOf(client.callTool('ask'))
      expect(error).toMatchObject({ code: 'INPUT_FAILED', outcome: 'unknown', tool: 'ask' })
      expect(error).toMatchObject({ message: named(handler), cause: broken })
    }
    // It is no failure of the server, which would be asked whether it is there.
    expect(server.count('server/discover')).toBe(1)
    expect(server.count('tools/call')).toBe(3)
  })

  test('lets a server with sessions answer the call, and names itself to the server', async () => {
    await using server = await startLegacyServer({ tools: [asking(handler)] })
    const handlers = failing(handler, broken)
    await using client = new McpClient({ url: server.url }, { handlers, era: 'legacy' })
    const error = await rejectionOf(client.callTool('ask'))
    expect(error).toBeInstanceOf(McpError)
    expect(error).toMatchObject({ message: named(handler) })
  })
})

test('a handler chooses what the server reads', async () => {
  await using server = await startLegacyServer({ tools: [asking('sampling')] })
  const handlers = failing('sampling', new McpError(-1, 'The user said no'))
  await using client = new McpClient({ url: server.url }, { handlers, era: 'legacy' })
  const answer = await rejectionOf(client.callTool('ask'))
  expect(String(answer)).toContain('The user said no')
  expect(String(answer)).not.toContain('handler')
})

test('an answer that does not fit its question fails the call with the name of the handler', async () => {
  await using server = await startModernServer({ tools: [asking('sampling')] })
  const handlers = { sampling: () => ({ role: 'nobody' }) } as unknown as ClientHandlers
  await using client = new McpClient({ url: server.url }, { handlers })
  const error = await rejectionOf(client.callTool('ask'))
  expect(error).toMatchObject({ code: 'INPUT_FAILED' })
  expect(String(error)).toContain('The handler "sampling" failed')
})

const ways = {
  'never settles': (): Promise<never> => new Promise(() => {}),
  throws: (): never => {
    throw new Error('broken')
  },
  rejects: (): Promise<never> => Promise.reject(new Error('broken')),
}
const wayNames = Object.keys(ways) as (keyof typeof ways)[]

type Fail = () => Promise<never>
type Setup = (fail: Fail, url: string) => ConstructorParameters<typeof McpClient>

const pay: TestTool = { name: 'pay', run: () => 'paid' }

const limit = { timeoutMs: 300 }

/** Code that a call needs before it is sent. */
const beforeCalls: Readonly<Record<string, Setup>> = {
  'a header function': (headers, url) => [{ url, headers }, limit],
  'a function for a token': (token, url) => [{ url }, { ...limit, authProvider: bearer(token) }],
  'a directory': (retrieve) => [{ slug: 'shop' }, { ...limit, directory: { retrieve } }],
  'a factory of session stores': (createSession, url) => [
    { url },
    { ...limit, sessionInfoFactory: { createSession } },
  ],
}

describe.each(['modern', 'legacy'] as const)('a server of the %s era', (era) => {
  const start = () =>
    era === 'modern'
      ? startModernServer({ tools: [pay, asking('elicitation')] })
      : startLegacyServer({ tools: [pay, asking('elicitation')] })

  describe.each(Object.entries(beforeCalls))('%s', (_what, setup) => {
    test.each(wayNames)('that %s ends the call, and nothing was sent', async (way) => {
      await using server = await start()
      await using client = new McpClient(...setup(async () => ways[way](), server.url))
      const error = await rejectionOf(client.callTool('pay'))
      expect(error).toBeInstanceOf(Error)
      // The errors of directories and factories are passed on as they are.
      const isPassedOn = (error as Error).message === 'broken'
      expect(isPassedOn || (error as { outcome?: unknown }).outcome === 'not-executed').toBe(true)
      expect(server.executions('pay')).toBe(0)
    })
  })

  describe.each(wayNames)('a session store that %s', (way) => {
    test.each(['before', 'after'] as const)('%s the request fails no call', async (when) => {
      await using server = await start()
      const fail = (own: () => Promise<unknown>) => async (): Promise<unknown> =>
        when === 'before' || server.executions('pay') > 0 ? ways[way]() : own()
      const createSession = (): SessionInfo => {
        const info = new SessionInfo()
        const methods = ['getSessionId', 'getRecord', 'setSessionId', 'setRecord'] as const
        const all = methods.map((name) => [name, fail(() => info[name](undefined))])
        return Object.assign(new SessionInfo(), Object.fromEntries(all))
      }
      await using client = new McpClient(
        { url: server.url },
        { sessionInfoFactory: { createSession } },
      )
      for (const times of [1, 2]) {
        // In sequence: the store fails before the second call, or between the two.
        await expect(client.callTool('pay')).resolves.toBeDefined()
        expect(server.executions('pay')).toBe(times)
      }
    })
  })

  test('a handler that never settles ends the call at its limit, with an unknown outcome', async () => {
    stopClock()
    await using server = await start()
    const asked = deferred()
    const elicitation = (): Promise<never> => {
      asked.resolve()
      return ways['never settles']()
    }
    const options = { ...limit, era, handlers: { elicitation } }
    await using client = new McpClient({ url: server.url }, options)
    const error = rejectionOf(client.callTool('ask'))
    await asked.promise
    vi.advanceTimersByTime(limit.timeoutMs)
    expect(await error).toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
  })
})

test('names the handler that failed first, not the one that ended because of it', async () => {
  const tool: TestTool = {
    name: 'ask',
    run: (_args, { inputResponses }) =>
      inputResponses === undefined
        ? {
            resultType: 'input_required',
            inputRequests: { one: questions.elicitation, two: questions.roots },
          }
        : 'done',
  }
  await using server = await startModernServer({ tools: [tool] })
  const asked = deferred()
  const handlers: ClientHandlers = {
    elicitation: (_params, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('ended')))
        asked.resolve()
      }),
    roots: async () => {
      await asked.promise
      throw broken
    },
  }
  await using client = new McpClient({ url: server.url }, { handlers })
  const error = await rejectionOf(client.callTool('ask'))
  expect(error).toMatchObject({ code: 'INPUT_FAILED', message: named('roots'), cause: broken })
})
