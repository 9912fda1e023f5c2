// Inputs that a stateless server requires: handlers of an SDK client answer them, or the caller gets them.
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { withErrorLink } from '@x/internal'
import { deferred, startLegacyServer, startModernServer, startScriptedServer } from '@x/mcp-testing'
import type { ScriptedAnswer, TestTool } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SessionInfo } from '../src/index.ts'
import type { InputAnswers, ServerRequest } from '../src/index.ts'
import { connectionTo, outcomeOf } from './connection.ts'
import { isRequest } from '../src/json-rpc.ts'
import { rawClient } from './raw-client.ts'
import { connectStock, getText } from './stock-client.ts'
import type { StockClientOptions } from './stock-client.ts'

const everything = {
  capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } },
  setUp: (client: Client) => {
    client.setRequestHandler(ElicitRequestSchema, ({ params }) =>
      params.mode === 'url'
        ? { action: 'accept' }
        : { action: 'accept', content: { value: `re: ${params.message}` } },
    )
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      role: 'assistant',
      model: 'none',
      content: { type: 'text', text: 'hello' },
    }))
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///work' }] }))
  },
} satisfies StockClientOptions

const question = (message: string): object => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties: {} } },
})

const asks = (inputRequests: object, requestState?: string): ScriptedAnswer => ({
  result: { resultType: 'input_required', inputRequests, ...(requestState && { requestState }) },
})

/** A tool that requires these inputs in one round, and returns the answers. */
const asking = (name: string, inputRequests: object): TestTool => ({
  name,
  run: (_args, { inputResponses }) =>
    inputResponses === undefined
      ? { resultType: 'input_required', inputRequests }
      : { structuredContent: inputResponses },
})

const visit = {
  method: 'elicitation/create',
  params: {
    mode: 'url',
    message: 'Please sign in',
    url: 'https://login.example/start',
    elicitationId: 'sign-in',
  },
}
const sampling = {
  method: 'sampling/createMessage',
  params: {
    messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }],
    maxTokens: 100,
  },
}

const done: ScriptedAnswer = { result: { content: [{ type: 'text', text: 'done' }] } }

describe('sends to a real server', () => {
  test.each([
    ['confirm', { confirmation: { action: 'accept', content: { value: 're: Go on?' } } }],
    ['sample', { answer: { content: { type: 'text', text: 'hello' } } }],
    ['roots', { roots: { roots: [{ uri: 'file:///work' }] } }],
    ['open_url', { visit: { action: 'accept' } }],
    ['ask_twice', { first: { action: 'accept' }, last: { action: 'accept' } }],
    [
      'ask_all',
      { confirmation: { action: 'accept' }, answer: { model: 'none' }, roots: { roots: [{}] } },
    ],
  ])("for the tool %s: the answers of the client's handlers", async (name, inputs) => {
    await using server = await startModernServer()
    const all = {
      confirmation: question('Go on?'),
      answer: sampling,
      roots: { method: 'roots/list' },
    }
    server.tools = [...server.tools, asking('open_url', { visit }), asking('ask_all', all)]
    await using stock = await connectStock(server.url, everything)
    const { structuredContent } = await stock.client.callTool({ name })
    expect(structuredContent).toMatchObject(inputs)
    expect(server.executions(name)).toBe(1)
    expect(stock.errors).toEqual([])
  })
})

describe('a round', () => {
  test('sends the answers and the state with a new id, and no other request has them', async () => {
    const state = ' {"a":\t"ü\u2028"} '
    await using server = await startScriptedServer({
      'tools/call': [asks({ a: question('A?') }, state), asks({ b: question('B?') }), done],
    })
    await using stock = await connectStock(server.url, everything)
    await stock.client.callTool({ name: 'ask', arguments: { x: 1 } })
    await stock.client.ping()
    const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
    expect(new Set(calls.map(({ rpcId }) => rpcId)).size).toBe(3)
    expect(calls.map(({ params }) => params?.['arguments'])).toEqual([{ x: 1 }, { x: 1 }, { x: 1 }])
    expect(calls.map(({ params }) => params?.['requestState'])).toEqual([
      undefined,
      state,
      undefined,
    ])
    expect(calls.map(({ params }) => Object.keys(params?.['inputResponses'] ?? {}))).toEqual([
      [],
      ['a'],
      ['b'],
    ])
    expect(server.violations).toEqual([])
  })

  test('requests its inputs concurrently', async () => {
    await using server = await startScriptedServer({
      'tools/call': [asks({ a: question('A?'), b: question('B?') }), done],
    })
    const both = deferred()
    let open = 0
    await using stock = await connectStock(server.url, {
      capabilities: { elicitation: {} },
      setUp: (client) => {
        client.setRequestHandler(ElicitRequestSchema, async () => {
          open += 1
          if (open === 2) both.resolve()
          await both.promise
          return { action: 'decline' }
        })
      },
    })
    expect(getText(await stock.client.callTool({ name: 'ask' }))).toBe('done')
  })

  test.each(['prompts/get', 'resources/read'])('may also belong to %s', async (method) => {
    const result = method === 'prompts/get' ? { messages: [] } : { contents: [] }
    await using server = await startScriptedServer({
      [method]: [asks({ a: question('A?') }), { result }],
    })
    await using stock = await connectStock(server.url, everything)
    const answer =
      method === 'prompts/get'
        ? await stock.client.getPrompt({ name: 'a' })
        : await stock.client.readResource({ uri: 'a://b' })
    expect(answer).toEqual(result)
  })

  test('reports progress to a client that listens to it', async () => {
    await using server = await startScriptedServer({
      'tools/call': [asks({ a: question('A?') }), asks({ b: question('B?') }), done],
    })
    await using stock = await connectStock(server.url, everything)
    let signs = 0
    await stock.client.callTool({ name: 'ask' }, undefined, { onprogress: () => void signs++ })
    expect(signs).toBe(2)
  })

  test('is one of at most ten, after which the call fails', async () => {
    await using server = await startScriptedServer({ 'tools/call': asks({ a: question('A?') }) })
    await using stock = await connectStock(server.url, everything)
    await expect(stock.client.callTool({ name: 'ask' })).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining('more than 10'),
    })
    expect(server.count('tools/call')).toBe(11)
  })
})

describe('the call fails, and nothing more is sent,', () => {
  test.each([
    ['for another method', 'tools/list', asks({ a: question('A?') })],
    ['without requests or state', 'tools/call', { result: { resultType: 'input_required' } }],
    ['with malformed requests', 'tools/call', asks([question('A?')])],
    ['for a method that is not an input request', 'tools/call', asks({ a: { method: 'ping' } })],
  ])('%s', async (_name, method, answer) => {
    await using server = await startScriptedServer({ [method]: answer })
    await using client = rawClient(server.url, { listen: false })
    await client.handshake({ elicitation: {} })
    await expect(client.request(method, {})).resolves.toMatchObject({ error: { code: -32603 } })
    expect(server.count(method)).toBe(1)
    expect(client.messages).toHaveLength(2)
  })

  test('for a capability that the client did not declare, without a request to the client', async () => {
    await using server = await startScriptedServer({
      'tools/call': asks({ a: question('A?'), b: { method: 'roots/list' } }),
    })
    await using client = rawClient(server.url, { listen: false })
    await client.handshake({ elicitation: {} })
    await expect(client.request('tools/call', {})).resolves.toMatchObject({
      error: { code: -32603, message: expect.stringContaining('roots/list') },
    })
    expect(client.messages).toHaveLength(2)
  })

  test('with the error of a handler, and the other input requests are cancelled', async () => {
    const inputs = { a: question('A?'), b: question('B?') }
    await using server = await startScriptedServer({ 'tools/call': asks(inputs) })
    await using client = rawClient(server.url, { listen: false })
    await client.handshake({ elicitation: {} })
    const call = client.request('tools/call', {})
    await client.until(() => client.messages.length === 3)
    const error = { code: -32042, message: 'Nobody is here' }
    const [a = '', b = ''] = client.messages
      .filter((message) => isRequest(message))
      .map(({ id }) => id)
    await client.transport.send({ jsonrpc: '2.0', id: a, error })
    const shown = { ...error, message: withErrorLink(error.message, 'REJECTED') }
    await expect(call).resolves.toMatchObject({ error: shown })
    expect(client.messages.slice(3)).toMatchObject([
      { method: 'notifications/cancelled', params: { requestId: b } },
      { id: 1, error: shown },
    ])
    await client.transport.send({ jsonrpc: '2.0', id: b, result: {} }) // too late, so it is dropped
    expect(server.count('tools/call')).toBe(1)
    expect(server.violations).toEqual([])
  })

  test('when it is cancelled while a user answers', async () => {
    await using server = await startScriptedServer({ 'tools/call': asks({ a: question('A?') }) })
    const asked = deferred<AbortSignal>()
    await using stock = await connectStock(server.url, {
      listen: false,
      capabilities: { elicitation: {} },
      setUp: (client) => {
        client.setRequestHandler(ElicitRequestSchema, async (_request, { signal }) => {
          asked.resolve(signal)
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          return { action: 'cancel' }
        })
      },
    })
    const abort = new AbortController()
    const call = stock.client.callTool({ name: 'ask' }, undefined, { signal: abort.signal })
    const signal = await asked.promise
    abort.abort()
    await expect(call).rejects.toThrow('aborted')
    expect(signal.aborted).toBe(true)
    await stock.client.ping()
    expect(server.count('tools/call')).toBe(1)
    expect(server.violations).toEqual([])
  })

  test('when it is cancelled in a handler of the message before the input request', async () => {
    const progress = { method: 'notifications/progress', params: { progressToken: 1, progress: 1 } }
    await using server = await startScriptedServer({
      'tools/call': {
        events: [progress],
        result: { resultType: 'input_required', inputRequests: { a: question('A?') } },
      },
    })
    await using stock = await connectStock(server.url, everything)
    const abort = new AbortController()
    const onprogress = (): void => abort.abort()
    const call = stock.client.callTool({ name: 'ask' }, undefined, {
      signal: abort.signal,
      onprogress,
    })
    await expect(call).rejects.toThrow('aborted')
    await stock.client.ping()
    expect(server.count('tools/call')).toBe(1)
    expect(stock.errors).toEqual([])
  })

  test('when it is cancelled between two rounds without input requests', async () => {
    await using server = await startScriptedServer({
      'tools/call': { result: { resultType: 'input_required', requestState: 's' } },
    })
    await using stock = await connectStock(server.url)
    const abort = new AbortController()
    const call = stock.client.callTool({ name: 'poll' }, undefined, { signal: abort.signal })
    await server.waitFor(({ rpcMethod, end }) => rpcMethod === 'tools/call' && end === 'complete')
    abort.abort()
    await expect(call).rejects.toThrow('aborted')
    await stock.client.ping()
    expect(server.count('tools/call')).toBe(1)
  })
})

describe('an input request for the caller', () => {
  test('is returned as the result, and another process continues with the answers', async () => {
    await using server = await startModernServer()
    const { capabilities } = everything
    const owner = { capabilities, sessionInfo: new SessionInfo() }
    const params = { name: 'ask_twice', arguments: {} }
    // The client stores JSON between the rounds.
    let kept: string | undefined
    for (const key of ['first', 'last']) {
      await using one = await connectionTo(server.url, { listen: false }, owner)
      const answers = kept === undefined ? undefined : (JSON.parse(kept) as InputAnswers)
      const inputs = { surface: true, answers }
      const surfaced = await outcomeOf(one, { method: 'tools/call', params }, { inputs })
      expect(surfaced).toMatchObject({
        result: {
          resultType: 'input_required',
          content: [],
          inputRequests: { [key]: { method: 'elicitation/create' } },
        },
      })
      kept = JSON.stringify({
        requestState: 'result' in surfaced ? surfaced.result['requestState'] : undefined,
        inputResponses: { [key]: { action: 'accept', content: { value: key } } },
      })
    }
    await using last = await connectionTo(server.url, { listen: false }, owner)
    const inputs = { answers: JSON.parse(kept ?? '{}') as InputAnswers }
    await expect(
      outcomeOf(last, { method: 'tools/call', params }, { inputs }),
    ).resolves.toMatchObject({
      result: {
        structuredContent: {
          first: { action: 'accept', content: { value: 'first' } },
          last: { action: 'accept', content: { value: 'last' } },
        },
      },
    })
    expect(server.executions('ask_twice')).toBe(1)
  })

  test('needs no capability of the client, and is an empty result of its method', async () => {
    const state = '{"secret": 1}'
    await using server = await startScriptedServer({
      'tools/call': asks({ a: question('A?') }, state),
      'prompts/get': asks({ a: question('A?') }),
      'resources/read': asks({ a: question('A?') }),
    })
    await using connection = await connectionTo(server.url, { listen: false })
    const surfaced = (method: string, params: Record<string, unknown>): Promise<unknown> =>
      outcomeOf(connection, { method, params }, { inputs: { surface: true } })
    await expect(surfaced('tools/call', { name: 'a' })).resolves.toMatchObject({
      result: { content: [], requestState: state },
    })
    await expect(surfaced('prompts/get', { name: 'a' })).resolves.toMatchObject({
      result: { messages: [], resultType: 'input_required' },
    })
    await expect(surfaced('resources/read', { uri: 'a' })).resolves.toMatchObject({
      result: { contents: [], resultType: 'input_required' },
    })
  })

  test('may be answered in part, with handlers for the rest', async () => {
    await using server = await startScriptedServer({
      'tools/call': [asks({ b: question('B?') }), done],
    })
    const { capabilities } = everything
    const onServerRequest = ({ respond }: ServerRequest): void =>
      void respond({ result: { action: 'accept' } })
    const owner = { capabilities, onServerRequest }
    await using connection = await connectionTo(server.url, { listen: false }, owner)
    const answers = { inputResponses: { a: { action: 'accept' } }, requestState: 's' }
    await outcomeOf(
      connection,
      { method: 'tools/call', params: { name: 'ask' } },
      { inputs: { answers } },
    )
    const calls = server.received.filter(({ rpcMethod }) => rpcMethod === 'tools/call')
    expect(calls[0]?.params).toMatchObject(answers)
    expect(calls[1]?.params).toMatchObject({ inputResponses: { b: { action: 'accept' } } })
    expect(calls[1]?.params).not.toHaveProperty('requestState')
  })
})

test('a call with answers is not sent to a server with sessions', async () => {
  await using server = await startLegacyServer()
  await using connection = await connectionTo(server.url)
  const inputs = { answers: { requestState: 'state' } }
  const params = { name: 'counter_add' }
  await expect(
    outcomeOf(connection, { method: 'tools/call', params }, { inputs }),
  ).resolves.toEqual({
    error: { code: -32602, message: expect.stringContaining('2026-07-28') },
  })
  expect(server.executions('counter_add')).toBe(0)
})
