// Sessions and streams: forged names, lost streams of others, and floods.
import { randomBytes } from 'node:crypto'
import { eventsOf, HANDSHAKE } from '../../../../packages/mcp-gateway/test/rpc-requests.ts'
import { ManualClock } from '../../../../packages/mcp-gateway/test/manual-clock.ts'
import {
  at,
  bearer,
  initialize,
  modern,
  post,
  reasonOf,
  Session,
  textOf,
  toAnswer,
  type Answer,
  type Fields,
} from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { honestClients, knownCallers, startTarget, TOKENS, type Target } from '../target.ts'

const PING = { jsonrpc: '2.0', id: 1, method: 'ping' }

/** Values of `Mcp-Session-Id` that name no session. @param id a session that exists */
const FORGED: Readonly<Record<string, (id: string) => string>> = {
  'an empty id': () => '',
  'a space': () => ' ',
  'one character': () => 'a',
  'another id': () => randomBytes(24).toString('base64url'),
  'a UUID': () => '00000000-0000-4000-8000-000000000000',
  'an id that was cut': (id) => id.slice(0, -1),
  'an id that is longer': (id) => `${id}A`,
  'an id with another last character': (id) => id.slice(0, -1) + (id.endsWith('A') ? 'B' : 'A'),
  'an id in capitals': (id) => id.toUpperCase(),
  'an id in quotes': (id) => `"${id}"`,
  'two ids': (id) => `${id}, ${id}`,
  'a key of the store': () => 'session:*',
  'a path': () => '../../session',
  'the id __proto__': () => '__proto__',
  constructor: () => 'constructor',
  'a glob': () => '*',
  'a line of Redis': () => 'x%0d%0aFLUSHALL',
  '8,000 characters': () => 'a'.repeat(8000),
  'Latin-1 characters': () => 'é'.repeat(20),
}

function forgedProbes(target: Target): readonly Probe[] {
  const send = (method: string, id: string): Promise<Response> =>
    fetch(target.url, {
      method,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-session-id': id,
      },
      ...(method === 'POST' && { body: JSON.stringify(PING) }),
    })
  return Object.entries(FORGED).map(([name, forge]) =>
    probe(
      `session id: ${name}`,
      async () => {
        const session = await Session.open(target)
        const statuses: number[] = []
        for (const method of ['POST', 'GET', 'DELETE']) {
          statuses.push((await toAnswer(await send(method, forge(session.id)))).status)
        }
        return { statuses, own: (await session.ask('ping')).status }
      },
      ({ statuses, own }) =>
        own === 200 && statuses.every((status) => status === 404 || status === 400),
    ),
  )
}

/** Headers of a request in a session that its client may not send. */
const WRONG_HEADERS: readonly (readonly [name: string, headers: Fields, status: number])[] = [
  ['a version that does not exist', { 'mcp-protocol-version': '1999-01-01' }, 400],
  ['a version that is a word', { 'mcp-protocol-version': 'latest' }, 400],
  ['an empty version', { 'mcp-protocol-version': '' }, 400],
  ['two versions', { 'mcp-protocol-version': '2025-11-25, 2025-06-18' }, 400],
  ['a version of 8,000 characters', { 'mcp-protocol-version': '2'.repeat(8000) }, 400],
  ['the version without sessions', { 'mcp-protocol-version': '2026-07-28' }, 400],
  ['no JSON accepted', { accept: 'text/event-stream' }, 406],
  ['no event stream accepted', { accept: 'application/json' }, 406],
  ['nothing accepted', { accept: 'image/png' }, 406],
]

/** Values of `Last-Event-ID`. @param hers the id of an event in the session of another caller */
const LAST_EVENTS: Readonly<Record<string, (hers: string) => string>> = {
  'of another session': (hers) => hers,
  'of another session, one later': (hers) => hers.replace(/.$/, '9'),
  'of another session, its end': (hers) => `${hers}.end`,
  'that is made up': () => `${randomBytes(16).toString('hex')}.1`,
  'that is a path': () => '../../session-events:x',
  'that is a key of the store': () => 'session-events:*',
  'that is __proto__': () => '__proto__',
  'of 8,000 characters': () => 'a'.repeat(8000),
  'that is a number': () => '0',
  'that is negative': () => '-1',
}

/** Begins a call that lasts, and returns the id of its first event. */
async function eventOf(session: Session): Promise<[id: string, stop: () => void]> {
  const leave = new AbortController()
  const call = { name: 'work', arguments: { message: 'hers' }, _meta: { progressToken: 1 } }
  const response = await session.stream(
    { id: 77, method: 'tools/call', params: call },
    leave.signal,
  )
  for await (const { id, data } of eventsOf(response)) {
    if (id !== undefined && data !== '') return [id, () => leave.abort()]
  }
  throw new Error('The call has no events')
}

function streamProbes(target: Target): readonly Probe[] {
  return [
    ...WRONG_HEADERS.map(([name, headers, status]) =>
      probe(
        `header in a session: ${name}`,
        async () => {
          const session = await Session.open(target, { token: TOKENS.ada })
          const refused = await session.send({ id: 1, method: 'ping' }, headers)
          return [refused.status, (await session.ask('ping')).status]
        },
        ([refused, own]) => refused === status && own === 200,
      ),
    ),
    ...Object.entries(LAST_EVENTS).map(([name, forge]) =>
      probe(
        `an event id ${name}`,
        async () => {
          const hers = await Session.open(target, { token: TOKENS.ada })
          const [event, stop] = await eventOf(hers)
          const his = await Session.open(target, { token: TOKENS.bob })
          const response = await his.listen({ 'last-event-id': forge(event) })
          const { status, text } = await toAnswer(response)
          await hers.send({ method: 'notifications/cancelled', params: { requestId: 77 } })
          stop()
          return { status, text }
        },
        ({ status, text }) => (status === 400 || status === 405) && !text.includes('hers'),
      ),
    ),
    probe(
      'a second stream of one session',
      async () => {
        const session = await Session.open(target, { token: TOKENS.ada })
        const leave = new AbortController()
        const first = await fetch(target.url, {
          headers: { ...session.headers, accept: 'text/event-stream' },
          signal: leave.signal,
        })
        const second = await toAnswer(await session.listen())
        leave.abort()
        return [first.status, second.status]
      },
      (statuses) => statuses.join() === '200,409',
    ),
    probe(
      'a second handshake in a session',
      async () => {
        const session = await Session.open(target, { token: TOKENS.ada })
        return session.ask('initialize', HANDSHAKE)
      },
      ({ status }) => status === 400,
    ),
    probe(
      'the id of a call that is in flight',
      async () => {
        const session = await Session.open(target, { token: TOKENS.ada })
        const message = {
          id: 5,
          method: 'tools/call',
          params: { name: 'pay', arguments: { message: 'once' } },
        }
        const [one, other] = await Promise.all([session.send(message), session.send(message)])
        return [one, other].map(({ status }) => status).toSorted((a, b) => a - b)
      },
      (statuses) => statuses.join() === '200,400' && target.runsOf('once') === 1,
    ),
    probe(
      'a session that has ended',
      async () => {
        const session = await Session.open(target, { token: TOKENS.ada })
        await session.end()
        return [
          (await session.ask('ping')).status,
          (await session.listen()).status,
          await session.end(),
        ]
      },
      (statuses) => statuses.every((status) => status === 404),
    ),
    ...['constructor', '__proto__', '', 'x'.repeat(5000), 1e300].map((id) =>
      probe(
        `an answer to a question that nobody asked: ${String(id).slice(0, 20)}`,
        async () => {
          const session = await Session.open(target, { token: TOKENS.ada })
          const { status } = await session.send({ id, result: { action: 'accept', content: {} } })
          return [status, (await session.ask('ping')).status]
        },
        ([status = 500, own]) => status < 500 && own === 200,
      ),
    ),
  ]
}

/** Refused for now, and told when to come back. */
const isLater = ({ status, headers }: Pick<Answer, 'status' | 'headers'>): boolean =>
  (status === 429 || status === 503) && Number(headers.get('retry-after')) > 0

/** Sends more than a limit allows. @returns how many were served; those that were refused must say when to come back */
async function flood(
  count: number,
  send: (n: number) => Promise<Answer>,
): Promise<{ served: number; areTold: boolean }> {
  const answers = await Promise.all(Array.from({ length: count }, (_, n) => send(n)))
  const refused = answers.filter(({ status }) => status !== 200)
  return { served: answers.length - refused.length, areTold: refused.every(isLater) }
}

const MESSAGE = { arguments: { message: 'served' } }

async function floodProbes(stack: AsyncDisposableStack): Promise<readonly Probe[]> {
  const auth = knownCallers()
  const few = await startTarget(stack, { auth, sessions: { max: 20, maxPerPrincipal: 8 } })
  const rated = await startTarget(stack, { auth, requestsPerMinute: 30 })
  const open = await startTarget(stack, { requestsPerMinute: 30 })
  const wide = await startTarget(stack)
  const busy = await startTarget(stack, {
    auth,
    runs: { maxConcurrent: 6, maxConcurrentPerPrincipal: 2, timeoutMs: 60_000 },
  })
  const others = (target: Target) =>
    modern(target, 'tools/call', { name: 'echo', ...MESSAGE, token: TOKENS.bob })
  return [
    probe(
      'a flood of handshakes of one caller',
      async () => ({
        ...(await flood(60, () => initialize(few, HANDSHAKE, bearer(TOKENS.ada)))),
        other: (await Session.open(few, { token: TOKENS.bob })).id,
      }),
      ({ served, areTold, other }) => served === 8 && areTold && other !== '',
    ),
    probe(
      'a flood of handshakes of all callers',
      async () =>
        flood(60, (n) => initialize(few, HANDSHAKE, bearer(Object.values(TOKENS)[n % 3]))),
      ({ served, areTold }) => served <= 20 && areTold,
    ),
    probe(
      'a flood of requests of one caller',
      async () => ({
        ...(await flood(120, () => modern(rated, 'tools/list', { token: TOKENS.ada }))),
        other: textOf(await others(rated)),
      }),
      ({ served, areTold, other }) => served >= 30 && served < 110 && areTold && other === 'served',
    ),
    probe(
      'a flood of wrong credentials of one address',
      async () => {
        const answers = await Promise.all(
          Array.from({ length: 120 }, (_, n) =>
            modern(rated, 'tools/list', { token: `wrong-${n}` }),
          ),
        )
        const refused = answers.filter(({ status }) => status !== 401)
        return {
          later: refused.length,
          areTold: refused.every(isLater),
          other: textOf(await others(rated)),
        }
      },
      ({ later, areTold, other }) => later > 30 && areTold && other === 'served',
    ),
    probe(
      'a flood of callers without a name, each with another address in its headers',
      () =>
        flood(120, (n) =>
          post(
            open,
            { jsonrpc: '2.0', id: n, method: 'initialize', params: HANDSHAKE },
            {
              'x-forwarded-for': `192.0.2.${n}`,
              forwarded: `for=192.0.2.${n}`,
              'x-real-ip': `192.0.2.${n}`,
            },
          ),
        ),
      ({ served, areTold }) => served >= 30 && served < 110 && areTold,
    ),
    probe(
      'a flood of streams of one address',
      async () => {
        const leave = new AbortController()
        const statuses: number[] = []
        for (let n = 0; n < 70; n++) {
          const { headers } = await Session.open(wide)
          const response = await fetch(wide.url, {
            headers: { ...headers, accept: 'text/event-stream' },
            signal: leave.signal,
          })
          statuses.push(response.status)
          if (response.status !== 200 && !isLater(response)) statuses.push(0)
        }
        const answer = textOf(await modern(wide, 'tools/call', { name: 'echo', ...MESSAGE }))
        leave.abort()
        return {
          kinds: [...new Set(statuses)],
          open: statuses.filter((status) => status === 200).length,
          answer,
        }
      },
      ({ kinds, open: count, answer }) =>
        kinds.join() === '200,429' && count === 64 && answer === 'served',
    ),
    probe(
      'a flood of calls of one caller that never end',
      async () => {
        const leave = new AbortController()
        const waiting = await Session.open(busy, { token: TOKENS.ada })
        const params = { name: 'work', arguments: { message: 'x' } }
        const calls = Array.from({ length: 100 }, async (_, id) => {
          const response = await waiting.stream({ id, method: 'tools/call', params }, leave.signal)
          return response.text().catch(() => '')
        })
        const refused = await Promise.any(
          calls.map(async (text) => {
            const read = await text
            if (!read.includes('"busy"')) throw new Error('Not refused')
            return read
          }),
        )
        const other = textOf(await others(busy))
        await waiting.end()
        leave.abort()
        await Promise.allSettled(calls)
        return { refused, other }
      },
      ({ refused, other }) => refused.includes('retryAfterMs') && other === 'served',
    ),
    probe(
      'the same callers after the floods',
      async () => [textOf(await others(busy)), textOf(await others(rated))],
      (texts) => texts.every((text) => text === 'served'),
    ),
  ]
}

/** Sessions whose time is over, by a clock that jumps. */
async function expiredProbes(stack: AsyncDisposableStack): Promise<readonly Probe[]> {
  const clock = new ManualClock()
  const target = await startTarget(stack, {
    auth: knownCallers(),
    clock,
    sessions: { idleTtlMs: 12_000_000 },
  })
  const expired = (name: string, steps: readonly number[]): Probe =>
    probe(
      `a session ${name}`,
      async () => {
        const session = await Session.open(target, { token: TOKENS.ada })
        const statuses: number[] = []
        for (const ms of steps) {
          await clock.advance(ms)
          statuses.push((await session.ask('ping')).status)
        }
        return statuses
      },
      (statuses) =>
        statuses.at(-1) === 404 && statuses.slice(0, -1).every((status) => status === 200),
    )
  return [
    expired('that was not used for its idle time', [11_900_000, 12_100_000]),
    expired('that is used for twelve hours', [11e6, 11e6, 11e6, 10_100_000, 200_000]),
    probe(
      'a question whose time is over',
      async () => {
        const asked = await modern(target, 'tools/call', {
          name: 'ask',
          ...MESSAGE,
          token: TOKENS.ada,
        })
        const run = at(asked, 'result', 'structuredContent', 'run')
        await clock.advance(3_700_000)
        const resume = { run, answers: { i0: { answer: 'late' } } }
        return modern(target, 'tools/call', {
          name: 'ask',
          arguments: { message: 'served', resume },
          token: TOKENS.ada,
        })
      },
      (answer) => reasonOf(answer) === 'expired',
    ),
  ]
}

export const sessions: Kind = {
  name: 'sessions',
  rule: 'a session serves its own client only, and floods cost nobody else',
  async prepare(stack) {
    const target = await startTarget(stack)
    const guarded = await startTarget(stack, { auth: knownCallers() })
    return {
      probes: [
        ...forgedProbes(target),
        ...streamProbes(guarded),
        ...(await expiredProbes(stack)),
        ...(await floodProbes(stack)),
      ],
      honest: [
        ...honestClients('a gateway', target),
        ...honestClients('a gateway with auth', guarded, { token: TOKENS.ada }),
      ],
    }
  },
}
