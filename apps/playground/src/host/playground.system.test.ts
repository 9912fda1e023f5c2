import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startLegacyServer, startTestServer } from '@x/mcp-testing'
import type { ServerDefinition } from '../servers/servers.ts'
import type { Trouble } from '../timeline/commands.ts'
import type { ConversationItem } from '../timeline/events.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import { EventLog } from './event-log.ts'
import { ExchangeRecorder } from './exchange-recorder.ts'
import { HostedServer } from './hosted-server.ts'
import { Playground } from './playground.ts'
import { createWeb, listen } from './web.ts'
import type { Listening } from './web.ts'

const ANSWER = { name: 'Ada', address: '1 Main Street', payment: 'card' }

let playground: Playground
let page: Listening

beforeAll(async () => {
  playground = await Playground.start({ env: { PLAYGROUND_MODEL: 'scripted', REPORT_MS: '500' } })
  page = await listen(createWeb(playground, import.meta.dirname), 0)
})

afterAll(async () => {
  await page[Symbol.asyncDispose]()
  await playground[Symbol.asyncDispose]()
})

function say(text: string): Promise<void> {
  return playground.run({ type: 'say', text })
}

function trouble(made: Trouble): Promise<void> {
  return playground.run({ type: 'trouble', trouble: made })
}

function itemsOf<Type extends ConversationItem['type']>(type: Type) {
  return playground.state.conversation.filter(
    (item): item is Extract<ConversationItem, { type: Type }> => item.type === type,
  )
}

function lastText(): string {
  return itemsOf('message').at(-1)?.text ?? ''
}

function lastQuestionId(): string {
  return itemsOf('question').at(-1)?.id ?? ''
}

describe('the playground', () => {
  test('streams a run with tool calls of a sub-agent, and stores the session', async () => {
    await say('Add two apples to my basket')
    expect(playground.state.run).toMatchObject({ state: 'done' })
    expect(itemsOf('tool-call')).toMatchObject([
      { agent: 'supervisor', name: 'ask_shopper', result: { isError: false } },
      {
        agent: 'shopper',
        name: 'basket_add',
        args: { item: 'apples', quantity: 2 },
        result: { isError: false, structuredContent: { items: [{ item: 'apples', quantity: 2 }] } },
      },
    ])
    expect(itemsOf('message').map(({ from, agent }) => agent ?? from)).toEqual([
      'user',
      'shopper',
      'supervisor',
    ])
    expect(lastText()).toMatch(/^A new basket of session .* holds 2 × apples$/)
    expect(playground.state.records).toMatchObject([{ server: 'basket', era: 'legacy' }])
  })

  test('keeps the revision of a server after a restart', async () => {
    const revision = (): string | undefined =>
      playground.state.servers.find(({ name }) => name === 'basket')?.revision
    await trouble({ name: 'switch-era', server: 'basket' })
    await trouble({ name: 'restart-server', server: 'basket' })
    expect(revision()).toBe('2026-07-28')
    await trouble({ name: 'switch-era', server: 'basket' })
    expect(revision()).toBe('2025-11-25')
  })

  test('continues a run that waits for an answer in a new agent process', async () => {
    await trouble({ name: 'switch-era', server: 'basket' })
    await say('Add a plum to my basket, then check out')
    expect(playground.state.run?.state).toBe('waiting')
    expect(itemsOf('question')).toMatchObject([{ server: 'basket', mode: 'form' }])
    await expect(say('Hello')).rejects.toThrow('answer its question, or stop the run')
    await trouble({ name: 'kill-process', process: 'agent' })
    expect(playground.state.run?.state).toBe('waiting')
    const answer = { type: 'answer', questionId: lastQuestionId(), action: 'accept' } as const
    const [first, second] = await Promise.allSettled([
      playground.run({ ...answer, content: ANSWER }),
      playground.run({ ...answer, content: { ...ANSWER, name: 'Bob' } }), // another tab
    ])
    expect(first.status).toBe('fulfilled')
    expect(second).toMatchObject({ reason: { message: expect.stringContaining('closed') } })
    expect(playground.state.run?.state).toBe('done')
    expect(lastText()).toMatch(/^Ordered 1 × plum for Ada/)
    await trouble({ name: 'switch-era', server: 'basket' })
  })

  test('asks again when an answer does not fit, and stops a run that waits', async () => {
    await say('Add a plum to my basket, then check out')
    const questionId = lastQuestionId()
    await playground.run({ type: 'answer', questionId, action: 'accept', content: { name: 'Ada' } })
    const question = itemsOf('question').at(-1)
    expect(question).toMatchObject({
      id: questionId,
      message: expect.stringContaining('does not fit'),
    })
    expect(question?.action).toBeUndefined()
    await playground.run({ type: 'stop-run' })
    expect(playground.state.run).toMatchObject({ state: 'done', problem: 'You stopped this run.' })
    expect(itemsOf('question').at(-1)?.action).toBe('cancel')
    expect(itemsOf('tool-call').at(-1)).toMatchObject({ result: { isError: true } })
    await say('Show my basket')
    expect(playground.state.run?.state).toBe('done')
  })

  test('stops a run while a new agent process starts', async () => {
    const counting = say('Count to 9')
    await playground.until(() => itemsOf('tool-call').at(-1)?.name.startsWith('trigger') ?? false)
    const restart = trouble({ name: 'kill-process', process: 'agent' })
    await playground.until(({ processes }) => processes['agent']?.state === 'starting')
    await playground.run({ type: 'stop-run' })
    await Promise.all([counting, restart])
    expect(playground.state.run).toMatchObject({ state: 'done', problem: 'You stopped this run.' })
    await say('What is 2 plus 3?')
    expect(lastText()).toContain('5')
  })

  test('ends a run with an error of the model, and goes on', async () => {
    await say('Give me a model error')
    expect(playground.state.run).toMatchObject({
      state: 'failed',
      problem: expect.stringContaining('The scripted model fails'),
    })
    await say('What is 2 plus 3?')
    expect(lastText()).toContain('5')
  })

  test('refuses a trouble that a server cannot make', async () => {
    await expect(trouble({ name: 'switch-era', server: 'everything' })).rejects.toThrow(
      'The server everything cannot do "switch-era".',
    )
    await expect(trouble({ name: 'cut-connections', server: 'none' })).rejects.toThrow(
      'No server is called "none".',
    )
  })
})

describe('the web server', () => {
  test('sends the whole state first, and then each event', async () => {
    playground.notify('info', 'one')
    await using stream = await openEvents()
    const snapshot = await stream.next()
    expect(snapshot).toMatch(/^retry: 500\nevent: snapshot\ndata: /)
    expect(stateOf(snapshot).notices.at(-1)).toMatchObject({ text: 'one' })
    playground.notify('info', 'two')
    expect(await stream.next()).toMatch(/^data: {"type":"notice","level":"info","text":"two","at":/)
  })

  test('ends the stream of a page that reads nothing for long', async () => {
    const app = createWeb(playground, import.meta.dirname)
    const { body } = await app.request('/api/events', { headers: { host: '127.0.0.1' } })
    for (let count = 0; count < 5010; count++) playground.notify('info', 'again')
    const text = await new Response(body).text()
    expect(text.match(/^data: /gm)?.length).toBeGreaterThan(5000)
  })

  test.each([
    [{ host: 'evil.example' }, 403],
    [{ origin: 'https://evil.example' }, 403],
    [{ host: '127.0.0.1', origin: 'http://127.0.0.1' }, 409],
  ])('answers a command with the headers %j with %i', async (headers, status) => {
    const app = createWeb(playground, import.meta.dirname)
    const command = { type: 'trouble', trouble: { name: 'restart-server', server: 'none' } }
    const response = await app.request('/api/commands', {
      method: 'POST',
      headers: { host: '127.0.0.1', 'content-type': 'application/json', ...headers },
      body: JSON.stringify(command),
    })
    expect(response.status).toBe(status)
  })

  test.each(['nonsense', '{}', '{"type":"say"}', '{"type":"trouble","trouble":{"name":"fire"}}'])(
    'refuses the command %s with the reason',
    async (body) => {
      const response = await fetch(new URL('/api/commands', page.url), { method: 'POST', body })
      expect(response.status).toBe(400)
      expect(await response.json()).toEqual({ error: expect.stringMatching(/^Wrong command: /) })
    },
  )

  test('names a port that is in use', async () => {
    const port = Number(new URL(page.url).port)
    await expect(listen(createWeb(playground, import.meta.dirname), port)).rejects.toThrow(
      `Port ${port} is in use: end the program that uses it, or choose another with --port`,
    )
  })
})

test('goes on with the stored conversation after a restart', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'playground-test-'))
  const options = { folder, env: { PLAYGROUND_MODEL: 'scripted' } }
  let first: readonly ConversationItem[]
  {
    await using started = await Playground.start(options)
    await started.run({ type: 'say', text: 'Add a plum to my basket, then check out' })
    expect(started.state.run?.state).toBe('waiting')
    first = started.state.conversation
  }
  await using second = await Playground.start(options)
  expect(second.state.run?.state).toBe('waiting')
  expect(second.state.conversation).toHaveLength(first.length)
  expect(second.state.conversation.at(-1)).toEqual(first.at(-1))
  await second.run({ type: 'stop-run' })
  await second.run({ type: 'new-conversation' })
  expect(second.state.conversation).toEqual([])
  await rm(folder, { recursive: true })
})

test('refuses a damaged SQLite file, and leaves it as it is', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'playground-test-'))
  const file = join(folder, 'debugstate.db')
  await writeFile(file, 'This is not a database')
  await expect(Playground.start({ folder })).rejects.toThrow(/debugstate\.db.*move it away/s)
  expect(await readFile(file, 'utf8')).toBe('This is not a database')
  await rm(folder, { recursive: true })
})

test('goes on with a wrong key of the model, and shows it nowhere', async () => {
  await using service = await startTestServer((_request, response) => {
    response.writeHead(401, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: { message: 'Incorrect API key provided: sk-1234' } }))
  })
  await using started = await Playground.start({
    env: {
      PLAYGROUND_MODEL: 'openai:gpt-5-mini',
      OPENAI_API_KEY: 'sk-1234',
      OPENAI_BASE_URL: service.url,
    },
  })
  expect(started.state.processes['agent']).toMatchObject({
    state: 'running',
    model: 'openai:gpt-5-mini',
  })
  await started.run({ type: 'say', text: 'Show my basket' })
  expect(started.state.run).toMatchObject({
    state: 'failed',
    problem: expect.stringContaining('The model refused the API key (status 401)'),
  })
  expect(JSON.stringify(started.state)).not.toContain('sk-1234')
})

test('says that a server did not start, and starts it again', async () => {
  const log = new EventLog()
  let starts = 0
  const definition: ServerDefinition = {
    name: 'shop',
    title: 'Shop',
    troubles: ['restart-server', 'forget-sessions'],
    start: async () => {
      if (++starts === 1) throw new Error('no space left')
      const started = await startLegacyServer()
      return {
        url: started.url,
        kind: 'legacy',
        [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
      }
    },
  }
  await using server = new HostedServer(definition, log, new ExchangeRecorder([], () => {}))
  const problem = 'It did not start: no space left. Restart it to try again.'
  await expect(server.start()).rejects.toThrow(`The server shop failed. ${problem}`)
  expect(log.state.servers).toMatchObject([{ name: 'shop', state: 'failed', problem }])
  await expect(server.makeTrouble('forget-sessions')).rejects.toThrow('does not run: restart it')
  await server.makeTrouble('restart-server')
  expect(log.state.servers).toMatchObject([{ state: 'running', revision: '2025-11-25' }])
})

test('hides secrets in the headers and bodies of an exchange', async () => {
  await using server = await startTestServer((_, response) => response.end('{"token":"abc"}'))
  const ended = Promise.withResolvers<number>()
  const recorder = new ExchangeRecorder(['hidden'], ({ id, durationMs }) => {
    if (durationMs !== undefined) ended.resolve(id)
  })
  const caller = { from: 'agent', pid: () => 1 } as const
  await using proxy = await recorder.startProxy(() => server.url, 'shop', caller)
  const headers = { authorization: 'Bearer abc' }
  await (await fetch(proxy.url, { method: 'POST', headers, body: '{"text":"hidden"}' })).text()
  expect(recorder.detailsOf(await ended.promise)).toMatchObject({
    request: { headers: { authorization: 'Bearer •••' }, body: '{"text":"•••"}' },
    response: { body: '{"token":"•••"}' },
  })
})

function stateOf(snapshot: string): PlaygroundState {
  return JSON.parse(/^data: (.*)$/m.exec(snapshot)?.[1] ?? '')
}

/** Opens the stream of events, and reads it event by event. */
async function openEvents(): Promise<AsyncDisposable & { readonly next: () => Promise<string> }> {
  const { body } = await fetch(new URL('/api/events', page.url))
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  return {
    async next() {
      while (!text.includes('\n\n')) text += (await reader?.read())?.value ?? '\n\n'
      const end = text.indexOf('\n\n')
      const event = text.slice(0, end)
      text = text.slice(end + 2)
      return event
    },
    [Symbol.asyncDispose]: async () => reader?.cancel(),
  }
}
