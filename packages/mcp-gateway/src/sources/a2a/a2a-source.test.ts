import { buffer } from 'node:stream/consumers'

import { generateKeyPair, exportJWK } from 'jose'
import { generateAgentCardSignature } from '@a2a-js/sdk'
import { deferred } from '@x/test-kit'
import { describe, expect, test } from 'vitest'

import {
  type A2aAgent,
  type AgentTurn,
  dataPart,
  filePart,
  startA2aAgent,
  textPart,
  urlPart,
} from '../../../test/a2a-agent.ts'
import { ManualClock, settled } from '../../../test/manual-clock.ts'
import { principalNamed } from '../../../test/scripted-source.ts'
import type { Agent } from '../../agents/agent.ts'
import type { AgentSource } from '../../agents/agent-source.ts'
import type { AgentCall } from '../../runs/agent-call.ts'
import type { AgentUpdate } from '../../runs/agent-update.ts'
import { a2aSource, type A2aCard, type A2aSourceOptions } from './a2a-source.ts'

interface Started extends AsyncDisposable {
  readonly source: AgentSource
  readonly agents: readonly Agent[]
  readonly told: readonly string[]
  readonly warnings: readonly unknown[]
  readonly agentId: string
}

async function started(
  agent: A2aAgent,
  { card, ...options }: Partial<A2aSourceOptions> & { readonly card?: Partial<A2aCard> } = {},
): Promise<Started> {
  const told: string[] = []
  const agents: Agent[] = []
  const warnings: unknown[] = []
  const source = a2aSource({
    cards: [{ url: agent.url, ...card }],
    trustedOrigins: [agent.origin],
    pollMs: 1,
    onWarning: (message, cause) => warnings.push(message, cause),
    ...options,
  })
  await source.start({
    found: (found) => {
      agents.push(found)
      told.push(`found ${found.name}`)
    },
    seen: () => told.push('seen'),
    gone: () => told.push('gone'),
  })
  const agentId = `a2a:${agent.origin}`
  return { source, agents, told, warnings, agentId, [Symbol.asyncDispose]: () => source.close() }
}

function callOf(over: Partial<AgentCall> & { readonly agentId: string }): AgentCall {
  return {
    runId: 'run_0123456789abcdef',
    skillId: 'forecast',
    input: { kind: 'message', text: 'Rain?', files: [] },
    principal: { ...principalNamed('ada'), claims: { token: 'secret' } },
    signal: new AbortController().signal,
    artifacts: { write: () => Promise.reject(new Error('no files here')) },
    ...over,
  }
}

async function all(updates: AsyncIterable<AgentUpdate>): Promise<readonly AgentUpdate[]> {
  const list: AgentUpdate[] = []
  for await (const update of updates) list.push(update)
  return list
}

/** What a caller would read. */
function textIn(updates: readonly AgentUpdate[]): string {
  const last = updates.at(-1)
  if (last?.type === 'done' && last.text !== undefined) return last.text
  return updates.map((update) => (update.type === 'text' ? update.text : '')).join('')
}

function rain(turn: AgentTurn): void {
  turn.begin()
  turn.status(2, 'Looking at the sky')
  turn.artifact('a', [textPart('It will ')], { lastChunk: false })
  turn.artifact('a', [textPart('rain.')], { append: true })
  turn.status(3)
}

const KINDS = [
  { version: '1.0', streaming: true },
  { version: '1.0', streaming: false },
  { version: '1.0', streaming: true, binding: 'HTTP+JSON' },
  { version: '1.0', streaming: false, binding: 'HTTP+JSON' },
  { version: '0.3', streaming: true },
  { version: '0.3', streaming: false },
] as const

describe.each(KINDS)('an agent of A2A $version, streaming: $streaming, $binding', (kind) => {
  test('is what its card says, and answers', async () => {
    const heard: AgentTurn[] = []
    await using agent = await startA2aAgent((turn) => {
      heard.push(turn)
      rain(turn)
    }, kind)
    await using world = await started(agent)
    expect(world.agents).toMatchObject([
      {
        id: `a2a:${agent.origin}`,
        name: 'Weather',
        description: 'Knows the weather',
        skills: [
          {
            id: 'forecast',
            name: 'Forecast',
            description: 'Tells the weather',
            tags: ['weather'],
            examples: ['Will it rain in Oslo?'],
            inputModes: ['text/plain'],
          },
        ],
      },
    ])
    const updates = await all(world.source.run(callOf(world)))
    expect(textIn(updates)).toBe('It will rain.')
    expect(updates.at(-1)).toEqual({ type: 'done' })
    expect(heard[0]?.words).toBe('Rain?')
    expect(heard[0]?.message.metadata).toMatchObject({ skillId: 'forecast' })
    expect(world.warnings).toEqual([])
  })

  test('asks, and goes on with the answer in the same task', async () => {
    const turns: AgentTurn[] = []
    await using agent = await startA2aAgent((turn) => {
      turns.push(turn)
      turn.begin()
      if (turn.isContinued) {
        turn.artifact('a', [textPart(`Sun in ${turn.words}`)])
        turn.status(3)
      } else turn.status(6, 'Where?')
    }, kind)
    await using world = await started(agent)
    const asked = (await all(world.source.run(callOf(world)))).at(-1)
    expect(asked).toMatchObject({ type: 'asked', questions: [{ id: 'input', message: 'Where?' }] })
    if (asked?.type !== 'asked') return
    const state: unknown = JSON.parse(JSON.stringify(asked.state))
    const answers = { input: { action: 'accept', content: { answer: 'Oslo' } } } as const
    const updates = await all(world.source.run(callOf({ ...world, resume: { state, answers } })))
    expect(textIn(updates)).toBe('Sun in Oslo')
    expect(turns[1]?.context.taskId).toBe(turns[0]?.context.taskId)
    expect(turns[1]?.context.contextId).toBe(turns[0]?.context.contextId)
  })

  test('is cancelled when its caller gives up, and when nobody answers it', async () => {
    const isRunning = deferred()
    const wasCancelled = deferred()
    await using agent = await startA2aAgent(async (turn) => {
      turn.begin()
      if (turn.words === 'ask') return turn.status(6, 'Where?')
      isRunning.resolve()
      await turn.cancelled
      wasCancelled.resolve()
    }, kind)
    await using world = await started(agent)
    const caller = new AbortController()
    const run = all(world.source.run(callOf({ ...world, signal: caller.signal })))
    await isRunning.promise
    caller.abort(new Error('gone'))
    await expect(run).rejects.toThrow('gone')
    await wasCancelled.promise
    const input = { kind: 'message', text: 'ask', files: [] } as const
    const asked = (await all(world.source.run(callOf({ ...world, input })))).at(-1)
    if (asked?.type !== 'asked') throw new Error('It did not ask')
    await world.source.forget?.(world.agentId, asked.state)
    const cancel = kind.version === '1.0' ? 'CancelTask' : 'tasks/cancel'
    expect(agent.methods.filter((method) => method === cancel)).toHaveLength(2)
  })
})

test.for([
  ['said at the end only', (turn: AgentTurn) => turn.status(3, 'Rain.'), 'Rain.'],
  [
    'said again at the end',
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
    'said while it worked only',
    (turn: AgentTurn) => {
      turn.status(2, 'Rain.')
      turn.status(3)
    },
    'Rain.',
  ],
] as const)('an answer is read once: %s', async ([name, say, text]) => {
  // Of what an agent said on the way only a stream tells.
  for (const streaming of name === 'said while it worked only' ? [true] : [true, false]) {
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

test('a message alone is a whole answer', async () => {
  await using agent = await startA2aAgent((turn) => turn.answer('Hello'))
  await using world = await started(agent)
  expect(await all(world.source.run(callOf(world)))).toEqual([
    { type: 'text', text: 'Hello' },
    { type: 'done' },
  ])
})

test.for([
  [4, 'No sky today', { reason: 'No sky today' }],
  [5, undefined, { reason: 'It was cancelled.', isCancelled: true }],
  [5, 'By the operator', { reason: 'By the operator', isCancelled: true }],
  [7, 'Not for me', { reason: 'Not for me' }],
] as const)('state %i is a failure that says why', async ([state, said, failure]) => {
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    turn.status(state, said)
  })
  await using world = await started(agent)
  expect((await all(world.source.run(callOf(world)))).at(-1)).toEqual({
    type: 'failed',
    ...failure,
  })
})

test('somebody has to sign in first; then the same task goes on', async () => {
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

test('where to sign in, said while it works, ends the call, and leaves no task behind', async () => {
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

test('data that comes on the way is progress, or nothing; at the end it is a file', async () => {
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

test('an answer that the agent refuses is an error at once', async () => {
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

test('files come by what they are: bytes in chunks, data, an address at home and elsewhere', async () => {
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

test('credentials may change: they are asked for before each request', async () => {
  await using agent = await startA2aAgent(rain)
  let asked = 0
  const headers = async () => ({ authorization: `Bearer ${++asked}` })
  await using world = await started(agent, { card: { headers } })
  await all(world.source.run(callOf(world)))
  expect(agent.methods).toEqual(['SendStreamingMessage'])
  expect(agent.requests.map((each) => each.headers.authorization)).toEqual(['Bearer 1', 'Bearer 2'])
})

test('whoever never gives the credentials holds up one look at a card, and not the next', async () => {
  await using agent = await startA2aAgent(rain)
  const clock = new ManualClock()
  let headers: () => Promise<Record<string, string>> = () => new Promise(() => undefined)
  const start = started(agent, { clock, random: () => 0.5, card: { headers: () => headers() } })
  await settled()
  await clock.advance(10_000)
  await using world = await start
  expect(world.warnings[1]).toMatchObject({ code: 'UNAVAILABLE' })
  expect(agent.requests).toEqual([])
  headers = async () => ({})
  await clock.advance(20_000)
  await agent.called('GET /.well-known/agent-card.json')
})

test('more than an answer may hold is refused, and its task cancelled', async () => {
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    for (let n = 0; n < 4; n++) {
      const chunk = [filePart('a.bin', Buffer.alloc(1000), 'x/y')]
      turn.artifact('a', chunk, { append: n > 0, lastChunk: false })
    }
  })
  await using world = await started(agent, { maxBytes: 3000 })
  await expect(all(world.source.run(callOf(world)))).rejects.toMatchObject({ code: 'LIMIT' })
  await agent.called('CancelTask')
})

const BINDINGS = ['JSONRPC', 'HTTP+JSON'] as const

test.for(BINDINGS)(
  'a stream over %s that is cut is taken up again, and nothing of it is lost or told twice',
  async (binding) => {
    const isCut = deferred()
    const isBack = deferred()
    await using agent = await startA2aAgent(
      async (turn) => {
        turn.begin()
        turn.artifact('a', [textPart('It will ')], { lastChunk: false })
        await isCut.promise
        turn.artifact('a', [textPart('rain ')], { append: true, lastChunk: false })
        await isBack.promise
        turn.artifact('a', [textPart('today.')], { append: true })
        turn.status(3)
      },
      { binding },
    )
    await using world = await started(agent)
    const updates: AgentUpdate[] = []
    for await (const update of world.source.run(callOf(world))) {
      updates.push(update)
      if (update.type !== 'text') continue
      if (update.text === 'It will ') {
        agent.cutStreams()
        isCut.resolve()
      } else isBack.resolve()
    }
    expect(textIn(updates)).toBe('It will rain today.')
    expect(agent.methods).toContain('SubscribeToTask')
    expect(agent.methods.filter((method) => method === 'SendStreamingMessage')).toHaveLength(1)
    expect(agent.methods).not.toContain('CancelTask')
  },
)

test('whoever stops listening before the task is named leaves none behind', async () => {
  const wasCancelled = deferred()
  const isThere = deferred()
  await using agent = await startA2aAgent(async (turn) => {
    isThere.resolve()
    await settled()
    turn.begin()
    await turn.cancelled
    wasCancelled.resolve()
  })
  await using world = await started(agent)
  const caller = new AbortController()
  const run = all(world.source.run(callOf({ ...world, signal: caller.signal })))
  await isThere.promise
  caller.abort(new Error('gone'))
  await expect(run).rejects.toThrow('gone')
  await wasCancelled.promise
})

test('its card is looked at again: by its tag, when it changes, when it is gone, and less often when it fails', async () => {
  await using agent = await startA2aAgent(rain)
  const clock = new ManualClock()
  let looked = deferred()
  // Asked for once after each look.
  const random = (): number => {
    looked.resolve()
    return 0.5
  }
  await using world = await started(agent, { clock, random })
  const next = async (ms: number): Promise<void> => {
    looked = deferred()
    await clock.advance(ms)
    await looked.promise
  }
  await next(20_000)
  expect(agent.requests.at(-1)?.headers['if-none-match']).toBeDefined()
  expect(world.agents[1]).toBe(world.agents[0])
  agent.serve({ name: 'Climate' })
  await next(20_000)
  agent.serve(503)
  await next(20_000)
  await next(20_000)
  await clock.advance(39_000)
  expect(agent.requests).toHaveLength(5)
  await next(1000)
  expect(world.warnings).toHaveLength(2)
  agent.serve({})
  await next(80_000)
  agent.serve(404)
  await next(20_000)
  agent.serve({ supportedInterfaces: [] })
  await next(20_000)
  agent.serve({})
  await next(20_000)
  expect(world.told).toEqual([
    'found Weather',
    'found Weather',
    'found Climate',
    'found Weather',
    'gone',
    'gone',
    'found Weather',
  ])
  await world.source.close()
  expect(clock.pending).toBe(0)
})

test('a card is refused that none of the keys signed', async () => {
  const [ours, theirs] = await Promise.all([generateKeyPair('ES256'), generateKeyPair('ES256')])
  const sign = (key: Parameters<typeof generateAgentCardSignature>[0]) =>
    generateAgentCardSignature(key, { alg: 'ES256', kid: 'k1', typ: 'JOSE' })
  const signatureKeys = [{ ...(await exportJWK(ours.publicKey)), kid: 'k1' }]
  await using good = await startA2aAgent(rain, { served: sign(ours.privateKey) })
  await using known = await started(good, { card: { signatureKeys } })
  expect(known.told).toEqual(['found Weather'])
  await using bad = await startA2aAgent(rain, { served: sign(theirs.privateKey) })
  await using forged = await started(bad, { card: { signatureKeys } })
  expect(forged.told).toEqual(['gone'])
  await using none = await startA2aAgent(rain)
  await using unsigned = await started(none, { card: { signatureKeys } })
  expect(unsigned.told).toEqual(['gone'])
  expect(String(unsigned.warnings[1])).toContain('no signature')
})

test('only the origin of a card gets its credentials, and they are told to nobody', async () => {
  await using other = await startA2aAgent(rain)
  const supportedInterfaces = [
    { url: `${other.url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
  ]
  await using agent = await startA2aAgent(rain, { card: { supportedInterfaces } })
  const headers = { authorization: 'Bearer very-secret' }
  await using world = await started(agent, {
    card: { headers },
    trustedOrigins: [agent.origin, other.origin],
  })
  expect(agent.requests[0]?.headers.authorization).toBe('Bearer very-secret')
  await all(world.source.run(callOf(world)))
  expect(other.requests.at(-1)?.headers.authorization).toBeUndefined()
  agent.serve(500)
  await using failed = await started(agent, { card: { headers } })
  expect(
    JSON.stringify(failed.warnings, (_, value: unknown) =>
      value instanceof Error ? [value.message, value.cause] : value,
    ),
  ).not.toContain('very-secret')
})

test('neither a card nor what it names is asked at an address that is not public', async () => {
  await using agent = await startA2aAgent(rain)
  await using untrusted = await started(agent, { trustedOrigins: [] })
  expect(untrusted.told).toEqual([])
  expect(untrusted.warnings[1]).toMatchObject({ code: 'REFUSED' })
  expect(agent.requests).toEqual([])
  await using inner = await startA2aAgent(rain)
  const supportedInterfaces = [
    { url: `${inner.url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
  ]
  await using outer = await startA2aAgent(rain, { card: { supportedInterfaces } })
  await using world = await started(outer)
  await expect(all(world.source.run(callOf(world)))).rejects.toMatchObject({ code: 'REFUSED' })
  expect(inner.requests).toEqual([])
})

test('two cards that are the same are a mistake, and so is an origin that is none', () => {
  expect(() => a2aSource({ cards: [], trustedOrigins: ['10.0.0.7'] })).toThrow(
    expect.objectContaining({ code: 'CONFIG' }),
  )
  expect(() => a2aSource({ cards: ['https://a.example', 'https://a.example/'] })).toThrow(
    expect.objectContaining({ code: 'CONFIG' }),
  )
})

test('a task that nobody goes on with and that cannot be cancelled is a warning, not an error', async () => {
  await using agent = await startA2aAgent(rain)
  await using world = await started(agent)
  await world.source.forget?.(world.agentId, { taskId: 'unknown', contextId: 'c' })
  expect(world.warnings[0]).toContain('could not be cancelled')
  await world.source.forget?.(world.agentId, 'no state')
  expect(agent.methods).toEqual(['CancelTask'])
})

test('a stream that is cut before its task is named is an error, and nothing is sent again', async () => {
  const isThere = deferred()
  await using agent = await startA2aAgent(async () => {
    isThere.resolve()
    await new Promise(() => {})
  })
  await using world = await started(agent)
  const run = all(world.source.run(callOf(world)))
  await isThere.promise
  agent.cutStreams()
  await expect(run).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  expect(agent.methods).toEqual(['SendStreamingMessage'])
})
