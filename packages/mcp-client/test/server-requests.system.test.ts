// Requests of a server during a call: servers with sessions send requests of their own, stateless servers return
// the call with input requests. The same handlers answer both.
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { startEverythingServer, temporaryFolder } from '@x/internal/testing'
import type { EverythingServer } from '@x/internal/testing'
import {
  deferred,
  startModernServer,
  startLegacyServer,
  startRecordingProxy,
  startTestServer,
} from '@x/mcp-testing'
import type { Exchange, TestServer, TestTool } from '@x/mcp-testing'
import { beforeAll, describe, expect, test } from 'vitest'
import { isInputRequired, McpClient } from '../src/index.ts'
import type { ClientHandlers } from '../src/index.ts'
import { is, rejectionOf, textOf } from './setting.ts'
import { startClientProcess } from './start-client-process.ts'

/** Handlers that answer everything, and the requests that they received. */
function answering(): { readonly handlers: ClientHandlers; readonly asked: string[] } {
  const asked: string[] = []
  const handlers: ClientHandlers = {
    elicitation: (params, { signal }) => {
      asked.push(`${params.mode ?? 'form'}${signal.aborted ? ' (aborted)' : ''}`)
      return params.mode === 'url'
        ? { action: 'accept' }
        : { action: 'accept', content: { name: 'Ada' } }
    },
    sampling: () => {
      asked.push('sampling')
      return { model: 'm', role: 'assistant', content: { type: 'text', text: 'hello' } }
    },
    roots: () => {
      asked.push('roots')
      return [{ uri: 'file:///shop', name: 'shop' }]
    },
  }
  return { handlers, asked }
}

describe('on a server with sessions', () => {
  let everything: EverythingServer
  beforeAll(async () => {
    everything = await startEverythingServer()
    return () => everything[Symbol.asyncDispose]()
  })

  test.each<{ tool: string; args: Record<string, unknown>; what: string; answer: string }>([
    { tool: 'trigger-elicitation-request', args: {}, what: 'form', answer: 'Ada' },
    {
      tool: 'trigger-url-elicitation',
      args: { url: 'https://login.example/' },
      what: 'url',
      answer: 'completed',
    },
    {
      tool: 'trigger-sampling-request',
      args: { prompt: 'Say hello' },
      what: 'sampling',
      answer: 'hello',
    },
    { tool: 'get-roots-list', args: {}, what: 'roots', answer: 'file:///shop' },
  ])('answers $tool with its handler', async ({ tool, args, what, answer }) => {
    const { handlers, asked } = answering()
    await using client = new McpClient({ url: everything.url }, { handlers })
    expect(textOf(await client.callTool(tool, args))).toContain(answer)
    expect(asked).toContain(what)
  })

  test('answers with handlers also in a session that replaced another one', async () => {
    const first = await startEverythingServer()
    const { handlers, asked } = answering()
    await using client = new McpClient({ url: first.url }, { handlers })
    await client.callTool('trigger-elicitation-request')
    const port = Number(new URL(first.url).port)
    await first[Symbol.asyncDispose]()
    await using second = await startEverythingServer({ port })
    expect(second.url).toBe(first.url)
    expect(textOf(await client.callTool('trigger-elicitation-request'))).toContain('Ada')
    // The server also asks for roots, at a time of its own.
    expect(asked.filter((what) => what !== 'roots')).toEqual(['form', 'form'])
  })

  test('rejects a call, and does not repeat it, if the answer of its handler does not reach the server', async () => {
    await using proxy = await startRecordingProxy(everything.url)
    const { handlers, asked } = answering()
    await using client = new McpClient({ url: proxy.url }, { handlers })
    await client.ping()
    const isAnswer = ({ httpMethod, rpcMethod }: Exchange): boolean =>
      httpMethod === 'POST' && rpcMethod === undefined
    proxy.inject({ match: isAnswer, action: { status: 500, body: 'no' } })
    expect(await rejectionOf(client.callTool('trigger-elicitation-request'))).toMatchObject({
      code: 'OUTCOME_UNKNOWN',
      outcome: 'unknown',
      cause: { code: 'OUTCOME_UNKNOWN', cause: { code: 'REJECTED', status: 500 } },
    })
    expect(asked.filter((what) => what !== 'roots')).toEqual(['form'])
    expect(proxy.count({ rpcMethod: 'tools/call' })).toBe(1)
  })

  test("ignores inputRequired: 'surface', and sends nothing of it", async () => {
    await using server = await startLegacyServer()
    await using client = new McpClient({ url: server.url })
    const result = await client.callTool('echo', { text: 'x' }, { inputRequired: 'surface' })
    expect(isInputRequired(result)).toBe(false)
    const { params } = await server.waitFor(is.tool('echo'))
    expect(params).toEqual({ name: 'echo', arguments: { text: 'x' } })
  })

  test('does not continue a call that a server of the other era has returned: nothing is executed', async () => {
    await using server = await startLegacyServer()
    await using client = new McpClient({ url: server.url })
    const resume = { requestState: 's', inputResponses: {} }
    const error = await rejectionOf(client.callTool('counter_add', {}, { resume }))
    expect(error).toBeInstanceOf(McpError)
    expect(String(error)).toContain('2026-07-28')
    expect(server.executions('counter_add')).toBe(0)
  })
})

/** A tool that asks for these inputs at once, and returns the answers. */
const asking = (name: string, inputRequests: object): TestTool => ({
  name,
  run: (_args, { inputResponses }) =>
    inputResponses === undefined
      ? { resultType: 'input_required', inputRequests }
      : { structuredContent: inputResponses },
})

/** A tool that asks to be called again three times, without an input. */
const threeRounds: TestTool = {
  name: 'three_rounds',
  run: (_args, { requestState = '0' }) =>
    requestState === '3'
      ? 'answered after 3 rounds'
      : { resultType: 'input_required', requestState: String(Number(requestState) + 1) },
}

const visit = {
  method: 'elicitation/create',
  params: { mode: 'url', message: 'Sign in', url: 'https://login.example', elicitationId: '1' },
}
const confirmation = {
  method: 'elicitation/create',
  params: { message: 'Go on?', requestedSchema: { type: 'object', properties: {} } },
}
const sampling = {
  method: 'sampling/createMessage',
  params: {
    messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }],
    maxTokens: 100,
  },
}

describe('on a stateless server', () => {
  test.each([
    ['confirm', ['form']],
    ['open_url', ['url']],
    ['sample', ['sampling']],
    ['roots', ['roots']],
    ['ask_all', ['form', 'roots', 'sampling']],
    ['ask_twice', ['form', 'form']],
  ])('answers %s with %j', async (tool, whom) => {
    await using server = await startModernServer()
    const all = { confirmation, answer: sampling, roots: { method: 'roots/list' } }
    server.tools = [...server.tools, asking('open_url', { visit }), asking('ask_all', all)]
    const { handlers, asked } = answering()
    await using client = new McpClient({ url: server.url }, { handlers })
    const result = await client.callTool(tool)
    expect(result.isError ?? false).toBe(false)
    expect(asked.toSorted((a, b) => a.localeCompare(b))).toEqual(whom)
    expect(server.executions(tool)).toBe(1)
  })

  test('repeats the call if the server only asks for that', async () => {
    await using server = await startModernServer({ tools: [threeRounds] })
    await using client = new McpClient({ url: server.url })
    expect(textOf(await client.callTool('three_rounds'))).toBe('answered after 3 rounds')
  })

  test('is never asked for a capability that it did not declare', async () => {
    await using server = await startModernServer()
    await using client = new McpClient({ url: server.url })
    expect(await rejectionOf(client.callTool('confirm'))).toMatchObject({ code: -32021 })
  })

  test('ends the call on an abort during a request to the user, and aborts the handler', async () => {
    await using server = await startModernServer()
    const caller = new AbortController()
    let observed: AbortSignal | undefined
    const handlers: ClientHandlers = {
      elicitation: (_params, { signal }) => {
        observed = signal
        caller.abort(new Error('enough'))
        return new Promise(() => {})
      },
    }
    await using client = new McpClient({ url: server.url }, { handlers })
    const call = client.callTool('confirm', {}, { signal: caller.signal })
    expect(await rejectionOf(call)).toBe(caller.signal.reason)
    expect(observed?.aborted).toBe(true)
    expect(server.executions('confirm')).toBe(0)
  })

  test('continues a returned call in another process after kill -9, round by round', async () => {
    await using server = await startModernServer()
    await using folder = await temporaryFolder()
    const startNext = (n: number): ReturnType<typeof startClientProcess> =>
      startClientProcess(server.url, join(folder.path, `${n}.json`))
    await using first = await startNext(1)
    const open = questionsFrom(await first.ask('ask'))
    await first.kill()

    await using second = await startNext(2)
    const again = questionsFrom(await second.ask(`resume ${answered(open, 'Ada')}`))
    expect(Object.keys(again.inputRequests)).not.toEqual(Object.keys(open.inputRequests))
    await second.kill()

    await using third = await startNext(3)
    const result = await third.ask(`resume ${answered(again, 'Lovelace')}`)
    expect(result).toMatchObject({
      structuredContent: {
        first: { content: { name: 'Ada' } },
        last: { content: { name: 'Lovelace' } },
      },
    })
    expect(server.executions('ask_twice')).toBe(1)
  })
})

interface Questions {
  readonly inputRequests: Readonly<Record<string, unknown>>
  readonly requestState: string
}

function questionsFrom(answer: unknown): Questions {
  expect(answer).toMatchObject({ type: 'input_required', requestState: expect.any(String) })
  return answer as Questions
}

/** The answers to input requests: one line of JSON. */
function answered({ inputRequests, requestState }: Questions, name: string): string {
  const answer = { action: 'accept', content: { name } }
  const keys = Object.keys(inputRequests)
  const inputResponses = Object.fromEntries(keys.map((key) => [key, answer]))
  return JSON.stringify({ inputResponses, requestState })
}

/**
 * Starts a server that asks for a name in each call, always with the same id. It has one session, and forgets it when a
 * call is about its loss.
 */
async function startForgetfulServer(): Promise<
  TestServer & { readonly posted: unknown[]; readonly session: () => string }
> {
  const posted: unknown[] = []
  let sessions = 0
  const current = (): string => `session-${sessions}`
  const server = await startTestServer(async (request, response) => {
    const session = request.headers['mcp-session-id']
    const body = await text(request)
    const message = (body === '' ? {} : JSON.parse(body)) as {
      readonly id?: number
      readonly method?: string
      readonly params?: { readonly arguments?: { readonly about?: string } }
      readonly result?: unknown
    }
    const { id, method, params, result } = message
    const send = (...messages: readonly object[]): void => {
      const lines = messages.map((one) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...one })}\n\n`)
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(lines.join(''))
    }
    if (method === 'initialize') {
      sessions++
      response.setHeader('mcp-session-id', current())
      const serverInfo = { name: 'asking', version: '1' }
      return send({ id, result: { protocolVersion: '2025-11-25', capabilities: {}, serverInfo } })
    }
    const about = params?.arguments?.about
    if (session !== current() || about === 'loss') return void response.writeHead(404).end()
    if (method === 'tools/call') {
      const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } }
      const question = { message: about, requestedSchema }
      return send(
        { id: 0, method: 'elicitation/create', params: question },
        { id, result: { content: [] } },
      )
    }
    if (result !== undefined) posted.push({ session, id, result })
    response.writeHead(202).end()
  })
  return Object.assign(server, { posted, session: current })
}

test('sends the answer of a person only to the session that asked, although two sessions use one id', async () => {
  await using server = await startForgetfulServer()
  const people = { first: deferred(), second: deferred() }
  const asked = { first: deferred(), second: deferred() }
  const handlers: ClientHandlers = {
    elicitation: async ({ message }) => {
      const about = message as keyof typeof people
      asked[about].resolve()
      await people[about].promise
      return { action: 'accept', content: { name: about } }
    },
  }
  await using client = new McpClient({ url: server.url }, { handlers, era: 'legacy' })
  await client.callTool('ask', { about: 'first' })
  await asked.first.promise
  await rejectionOf(client.callTool('ask', { about: 'loss' }))
  await client.callTool('ask', { about: 'second' })
  await asked.second.promise
  people.first.resolve()
  await new Promise(setImmediate)
  people.second.resolve()
  await expect.poll(() => server.posted).not.toEqual([])
  const result = { action: 'accept', content: { name: 'second' } }
  expect(server.posted).toEqual([{ session: server.session(), id: 0, result }])
})

test('aborts the handler of a request whose session is lost', async () => {
  await using server = await startForgetfulServer()
  const asked = deferred<AbortSignal>()
  const handlers: ClientHandlers = {
    elicitation: (_params, { signal }) => {
      asked.resolve(signal)
      return new Promise(() => {})
    },
  }
  await using client = new McpClient({ url: server.url }, { handlers, era: 'legacy' })
  await client.callTool('ask', { about: 'first' })
  const signal = await asked.promise
  expect(signal.aborted).toBe(false)
  const aborted = once(signal, 'abort')
  await rejectionOf(client.callTool('ask', { about: 'loss' }))
  await aborted
})

/** Starts a server that asks three questions on the listening stream as soon as `calls` calls are open. */
async function startAsideServer(
  calls: number,
): Promise<TestServer & { readonly answers: object; readonly called: Promise<void> }> {
  const answers: Record<string, unknown> = {}
  const listening = deferred<ServerResponse>()
  const called = deferred()
  const open: (() => void)[] = []
  const questions = { elicitation: confirmation, sampling, roots: { method: 'roots/list' } }
  const server = await startTestServer(async (request, response) => {
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      return listening.resolve(response)
    }
    const body = await text(request)
    const message = body === '' ? {} : (JSON.parse(body) as Record<string, unknown>)
    const { id, method, result, error } = message
    const answer = (value: object): void => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: value }))
    }
    if (method === 'initialize') {
      response.setHeader('mcp-session-id', 'one')
      const serverInfo = { name: 'asking', version: '1' }
      return answer({ protocolVersion: '2025-11-25', capabilities: {}, serverInfo })
    }
    if (method === 'tools/call') {
      open.push(() => answer({ content: [] }))
      called.resolve()
      const stream = await listening.promise
      if (open.length !== calls) return undefined
      for (const key of Object.keys(answers)) delete answers[key]
      for (const [key, question] of Object.entries(questions)) {
        stream.write(`data: ${JSON.stringify({ ...question, jsonrpc: '2.0', id: key })}\n\n`)
      }
      return undefined
    }
    if (method === undefined && typeof id === 'string') answers[id] = result ?? error
    response.writeHead(202).end()
    if (Object.keys(answers).length === 3) for (const end of open.splice(0)) end()
  })
  return Object.assign(server, { answers, called: called.promise })
}

describe('questions on the listening stream', () => {
  test('belong to the only open call, also after another one', async () => {
    await using server = await startAsideServer(1)
    const callers: unknown[] = []
    const handlers: ClientHandlers = {
      elicitation: (_params, { origin }) => {
        callers.push(origin?.call?.caller)
        return { action: 'accept', content: {} }
      },
      sampling: (_params, { origin }) => {
        callers.push(origin?.call?.caller)
        return { model: 'm', role: 'assistant', content: { type: 'text', text: 'hello' } }
      },
      roots: () => [],
    }
    await using client = new McpClient({ url: server.url }, { handlers, era: 'legacy' })
    const [ada, bob] = [{ owner: 'ada' }, { owner: 'bob' }]
    await client.callTool('ask', {}, { caller: ada })
    await client.callTool('ask', {}, { caller: bob })
    expect(callers).toEqual([ada, ada, bob, bob])
    expect(server.answers).toMatchObject({
      elicitation: { action: 'accept' },
      roots: { roots: [] },
    })
    expect(client.status().lastDeclined).toBeUndefined()
  })

  test.each([
    ['bob', 'declined, because the server may still ask bob'],
    ['ada', 'answered'],
  ])('after a call of %s that got no answer, those of a call of ada are %s', async (owner) => {
    await using server = await startAsideServer(2)
    const { handlers, asked } = answering()
    await using client = new McpClient({ url: server.url }, { handlers, era: 'legacy' })
    client.on('log', () => {})
    const abort = new AbortController()
    const left = client.callTool('ask', {}, { caller: { owner }, signal: abort.signal })
    const failed = rejectionOf(left)
    await server.called
    abort.abort(new Error('enough'))
    await failed
    await client.callTool('ask', {}, { caller: { owner: 'ada' } })
    expect(asked).toEqual(owner === 'ada' ? ['form', 'sampling', 'roots'] : ['roots'])
  })

  test('are declined while two calls are open: error, log and status say why; roots need no call', async () => {
    await using server = await startAsideServer(2)
    const { handlers, asked } = answering()
    await using client = new McpClient({ url: server.url }, { handlers, era: 'legacy' })
    const warnings: string[] = []
    client.on('log', ({ level, message }) => level === 'warning' && warnings.push(message))
    await Promise.all([client.callTool('ask'), client.callTool('ask')])
    const why = 'it is not on the response stream of a call, and 2 calls may have caused it'
    const refusal = (method: string): object => ({
      code: -32600,
      message: expect.stringContaining(`${method} was declined: ${why}`),
    })
    expect(server.answers).toEqual({
      elicitation: refusal('elicitation/create'),
      sampling: refusal('sampling/createMessage'),
      roots: { roots: [{ uri: 'file:///shop', name: 'shop' }] },
    })
    expect(asked).toEqual(['roots'])
    expect(warnings).toHaveLength(2)
    expect(warnings[0]).toContain(`elicitation/create was declined: ${why}: send it on the`)
    const method = 'sampling/createMessage'
    const lastDeclined = { method, scope: undefined, why, at: expect.stringMatching(/Z$/) }
    expect(client.status()).toMatchObject({ lastDeclined })
  })
})
