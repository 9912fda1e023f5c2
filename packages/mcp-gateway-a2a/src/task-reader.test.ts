import { TaskState, type Message, type Part } from '@a2a-js/sdk'
import type { Client } from '@a2a-js/sdk/client'
import { buffer } from 'node:stream/consumers'

import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import {
  type AgentTurn,
  dataPart,
  filePart,
  startA2aAgent,
  textPart,
  urlPart,
} from '../test/a2a-agent.ts'
import { started, callOf, all, textIn } from '../test/a2a-world.ts'
import { systemClock } from '@x/mcp-gateway/adapter'
import { TaskArtifacts, TaskReader } from './task-reader.ts'
import { TaskRun } from './task-run.ts'

test.for([
  ['said at the end only', (turn: AgentTurn) => turn.status(3, 'Rain.'), 'Rain.'],
  [
    'repeated at the end',
    (turn: AgentTurn) => {
      turn.artifact('a', [textPart('Rain.')])
      turn.status(3, 'Rain.')
    },
    'Rain.',
  ],
  [
    'more at the end',
    (turn: AgentTurn) => {
      turn.artifact('a', [textPart('Rain.')])
      turn.status(3, 'Take an umbrella.')
    },
    'Rain.\n\nTake an umbrella.',
  ],
  [
    'in two artifacts',
    (turn: AgentTurn) => {
      turn.artifact('a', [textPart('Rain.')])
      turn.artifact('b', [textPart('Sun.')])
      turn.status(3)
    },
    'Rain.\n\nSun.',
  ],
  [
    'in two artifacts at the same time',
    (turn: AgentTurn) => {
      turn.artifact('a', [textPart('Rain')], { lastChunk: false })
      turn.artifact('b', [textPart('Sun')], { lastChunk: false })
      turn.artifact('a', [textPart(' here.')], { append: true })
      turn.artifact('b', [textPart(' there.')], { append: true })
      turn.status(3)
    },
    'Rain here.\n\nSun there.',
  ],
  [
    'only in messages of the working task',
    (turn: AgentTurn) => {
      turn.status(2, 'Rain.')
      turn.status(3)
    },
    'Rain.',
  ],
] as const)('yields the answer once: %s', async ([name, say, text]) => {
  // Of what an agent said on the way only a stream tells.
  for (const streaming of name === 'only in messages of the working task'
    ? [true]
    : [true, false]) {
    await using agent = await startA2aAgent(
      (turn) => {
        turn.begin()
        say(turn)
      },
      { streaming },
    )
    await using world = await started(agent)
    expect(textIn(await all(world.source.run(callOf(world))))).toBe(text)
  }
})

test('takes a message without a task as the whole answer', async () => {
  await using agent = await startA2aAgent((turn) => turn.answer('Hello'))
  await using world = await started(agent)
  expect(await all(world.source.run(callOf(world)))).toEqual([
    { type: 'text', text: 'Hello' },
    { type: 'done' },
  ])
})

test('asks for a sign-in, and then continues the same task', async () => {
  let isSignedIn = false
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    if (isSignedIn) turn.status(3, 'Welcome')
    else turn.status(8, 'Sign in at https://id.example/start')
  })
  await using world = await started(agent)
  const first = (await all(world.source.run(callOf(world)))).at(-1)
  expect(first).toMatchObject({ type: 'authorization', url: 'https://id.example/start' })
  if (first?.type !== 'authorization') return
  isSignedIn = true
  const answers = { access: { action: 'accept', content: {} } } as const
  const resume = { state: first.state, answers }
  expect(textIn(await all(world.source.run(callOf({ ...world, resume }))))).toBe('Welcome')
})

test('ends the call and cancels the task for a sign-in while it works', async () => {
  const wasCancelled = deferred()
  await using agent = await startA2aAgent(async (turn) => {
    turn.begin()
    const auth_uri = 'https://id.example/jira'
    turn.status(2, [
      textPart('Jira first. '),
      dataPart({ type: 'authentication_required', auth_uri }),
    ])
    await turn.cancelled
    wasCancelled.resolve()
  })
  await using world = await started(agent)
  expect(await all(world.source.run(callOf(world)))).toEqual([
    { type: 'authorization', url: 'https://id.example/jira', reason: 'Jira first. ' },
  ])
  await wasCancelled.promise
})

test('takes data of a working task as progress, and data at the end as a file', async () => {
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    turn.status(2, [dataPart({ type: 'llm_invocation', request: { contents: 'all of it' } })])
    turn.status(2, [dataPart({ type: 'agent_progress_update', status_text: 'Reading the map' })])
    turn.status(3, [textPart('Rain.'), dataPart({ mm: 4 })])
  })
  await using world = await started(agent)
  const updates = await all(world.source.run(callOf(world)))
  expect(updates.map((update) => (update.type === 'file' ? update.file.name : update))).toEqual([
    { type: 'status', text: 'Reading the map' },
    'file',
    { type: 'text', text: 'Rain.' },
    { type: 'done' },
  ])
  expect(JSON.stringify(updates)).not.toContain('all of it')
})

test('fails at once if the agent refuses an answer', async () => {
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    turn.status(6, 'Where?')
  })
  await using world = await started(agent)
  const asked = (await all(world.source.run(callOf(world)))).at(-1)
  if (asked?.type !== 'asked') throw new Error('It did not ask')
  const answers = { input: { action: 'accept', content: { answer: 'Oslo' } } } as const
  agent.refuseMessages()
  const run = all(world.source.run(callOf({ ...world, resume: { state: asked.state, answers } })))
  await expect(run).rejects.toThrow('Not now')
})

test('yields files from chunks of bytes, data, and URLs of the agent and of others', async () => {
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    turn.artifact('chunks', [filePart('a.bin', Buffer.from('ab'), 'x/y')], { lastChunk: false })
    turn.artifact('chunks', [filePart('a.bin', Buffer.from('cd'), 'x/y')], { append: true })
    turn.artifact('data', [dataPart({ rain: true })])
    turn.artifact('home', [urlPart('report.txt', `${agent.url}/report.txt`, 'text/plain')])
    turn.artifact('else', [urlPart('b.png', 'https://else.example/b.png', 'image/png')])
    turn.status(3)
  })
  await using world = await started(agent, { card: { headers: { authorization: 'Bearer k' } } })
  const files = []
  for (const update of await all(world.source.run(callOf(world)))) {
    if (update.type !== 'file') continue
    const { name, mimeType, data } = update.file
    const bytes = Symbol.asyncIterator in data ? await buffer(data) : data
    files.push([name, mimeType, 'url' in bytes ? bytes.url : Buffer.from(bytes).toString()])
  }
  expect(files).toEqual([
    ['a.bin', 'x/y', 'abcd'],
    ['data', 'application/json', '{"rain":true}'],
    ['report.txt', 'text/plain', 'A report'],
    ['b.png', 'image/png', 'https://else.example/b.png'],
  ])
  const asked = agent.requests.find(({ line }) => line === 'GET /report.txt')
  expect(asked?.headers.authorization).toBe('Bearer k')
})

function part(content: NonNullable<Part['content']>, filename = '', mediaType = ''): Part {
  return { content, filename, mediaType, metadata: undefined }
}
const text = (value: string): Part => part({ $case: 'text', value })
const raw = (value: string): Part => part({ $case: 'raw', value: Buffer.from(value) }, 'a.bin')

function artifact(artifactId: string, ...parts: Part[]) {
  return { artifactId, name: '', description: '', parts, metadata: undefined, extensions: [] }
}
const CHUNK = { append: true, lastChunk: false }
const LAST = { append: true, lastChunk: true }
const WHOLE = { append: false, lastChunk: true }

test('yields only the rest from a snapshot after a lost stream', () => {
  const artifacts = new TaskArtifacts(1000)
  void [...artifacts.take(artifact('1', text('Hel')), CHUNK)]
  const snapshot = [artifact('1', text('Hello')), artifact('2', text('!'))]
  expect([...artifacts.reconcile(snapshot)]).toEqual([
    { type: 'text', text: 'lo' },
    { type: 'text', text: '\n\n!' },
  ])
})

test('puts an empty line between the texts of two artifacts', () => {
  const artifacts = new TaskArtifacts(1000)
  const updates = [
    ...artifacts.take(artifact('1', text('One')), CHUNK),
    ...artifacts.take(artifact('1', text(' more\n')), LAST),
    ...artifacts.take(artifact('2', raw('file')), WHOLE),
    ...artifacts.take(artifact('3', text('Two')), CHUNK),
    ...artifacts.take(artifact('3', text('.')), LAST),
    ...artifacts.take(artifact('4', text('Three')), WHOLE),
  ]
  const texts = updates.map((update) => (update.type === 'text' ? update.text : ''))
  expect(texts.join('')).toBe('One more\n\nTwo.\n\nThree')
  expect(artifacts.text).toBe(texts.join(''))
  // A snapshot repeats them, and adds nothing.
  const snapshot = [
    artifact('1', text('One more\n')),
    artifact('3', text('Two.')),
    artifact('4', text('Three')),
  ]
  expect([...artifacts.reconcile(snapshot)]).toEqual([])
})

test('joins the chunks of a file by the id of its artifact, and yields it once', () => {
  const artifacts = new TaskArtifacts(1000)
  expect([...artifacts.take(artifact('1', raw('ab')), CHUNK)]).toEqual([])
  const file = { name: 'a.bin', mimeType: undefined, data: Buffer.from('abcd') }
  expect([...artifacts.take(artifact('1', raw('cd')), LAST)]).toEqual([{ type: 'file', file }])
  expect([...artifacts.reconcile([artifact('1', raw('abcd'))]), ...artifacts.finish()]).toEqual([])
})

test('yields two files for two artifacts with the same file name', () => {
  const artifacts = new TaskArtifacts(1000)
  const updates = ['1', '2'].flatMap((id) => [...artifacts.take(artifact(id, raw(id)), WHOLE)])
  expect(updates).toHaveLength(2)
})

test('yields a file without a last chunk at the end; data and URLs are files too', () => {
  const artifacts = new TaskArtifacts(1000)
  const url = part({ $case: 'url', value: 'https://a.example/b' }, 'b', 'image/png')
  const data = part({ $case: 'data', value: { a: 1 } }, 'c.json')
  expect([...artifacts.take(artifact('1', url, data), CHUNK)]).toEqual([])
  expect([...artifacts.finish()]).toEqual([
    {
      type: 'file',
      file: { name: 'b', mimeType: 'image/png', data: { url: 'https://a.example/b' } },
    },
    {
      type: 'file',
      file: { name: 'c.json', mimeType: 'application/json', data: Buffer.from('{"a":1}') },
    },
  ])
})

test('yields a file once and whole if a chunk of it was lost with a stream', async () => {
  const ids = { taskId: 't', contextId: 'c' }
  const chunk = (value: string, flags: object) => {
    const event = { ...ids, artifact: artifact('1', raw(value)), ...flags, metadata: undefined }
    return { payload: { $case: 'artifactUpdate', value: event } }
  }
  const statusOf = (state: TaskState) => ({ state, message: undefined, timestamp: undefined })
  const task = (state: TaskState, value: string) => {
    return {
      id: 't',
      contextId: 'c',
      status: statusOf(state),
      artifacts: [artifact('1', raw(value))],
    }
  }
  // The first snapshot is older than the stream, as from a replica of the agent.
  const snapshots = [
    task(TaskState.TASK_STATE_WORKING, 'ab'),
    task(TaskState.TASK_STATE_COMPLETED, 'abcdef'),
  ]
  const client = {
    async *sendMessageStream() {
      yield chunk('ab', { append: false, lastChunk: false })
      throw new Error('The stream broke')
    },
    async *resubscribeTask() {
      yield chunk('ef', LAST)
      const value = { ...ids, status: statusOf(TaskState.TASK_STATE_COMPLETED) }
      yield { payload: { $case: 'statusUpdate', value } }
    },
    getTask: async () => snapshots.shift(),
  }
  const times = { timeoutMs: 1000, pollMs: 1, clock: systemClock, random: () => 0 }
  const run = new TaskRun({
    client: client as unknown as Client,
    isStreaming: true,
    reader: new TaskReader(undefined, 1000),
    settings: { ...times, trustedOrigins: [], maxBytes: 1000 },
    headers: {},
    signal: new AbortController().signal,
    remote: undefined,
    onWarning: () => undefined,
  })
  const updates = await all(run.updates({} as Message, false))
  const file = { name: 'a.bin', mimeType: undefined, data: Buffer.from('abcdef') }
  expect(updates).toEqual([{ type: 'file', file }, { type: 'done' }])
  expect(snapshots).toEqual([])
})
