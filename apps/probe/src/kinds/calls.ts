// Calls that are sent twice, changed under their key, cancelled by others, or answered twice.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { MemoryGatewayStore } from '@x/mcp-gateway'
import {
  at,
  KEY_NAME,
  KNOWS_TASKS,
  modern,
  reasonOf,
  Session,
  SHOWS_FORMS,
  textOf,
  type Answer,
  type Json,
} from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { honestClients, knownCallers, startTarget, TOKENS, type Target } from '../target.ts'

/** The other letter case, another place or another type of one key are other keys, or none. */
const BAD_KEYS: Readonly<Record<string, unknown>> = {
  'an empty text': '',
  'a number': 7,
  'an object': { a: 1 },
  'a list': ['a'],
  null: null,
  'a space': 'a b',
  'a NUL': 'a\u0000b',
  'a line break': 'a\nb',
  'Latin-1': 'é'.repeat(30),
  'an emoji': '😀'.repeat(10),
  '256 characters': 'a'.repeat(256),
  '100,000 characters': 'a'.repeat(100_000),
}

const YES = { action: 'accept', content: { answer: 'yes' } }
/** The answer to the first question of a task. */
const ANSWER = { '1.i0': YES }

/** Answers to a question that the task has not asked, or that cannot be read. */
const BAD_ANSWERS: Readonly<Record<string, unknown>> = {
  'no answers': undefined,
  'a list': [],
  'a text': 'yes',
  'answers that are texts': { '1.i0': 'yes' },
  'the key of another question': { '1.i1': YES },
  'the key of another round': { '2.i0': YES },
  'a key without its round': { i0: YES },
  'the key __proto__': JSON.parse('{"__proto__":{"action":"accept","content":{"answer":"yes"}}}'),
  'an action that does not exist': { '1.i0': { ...YES, action: 'sudo' } },
  'content that is a list': { '1.i0': { ...YES, content: [] } },
  'content of another field': { '1.i0': { ...YES, content: { admin: true } } },
  '10,000 keys': Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`1.i${n + 1}`, YES])),
}

/** How often the same call is sent, and by which client. */
const DOUBLE_SENDS: readonly (readonly [name: string, send: Sender, tool: string])[] = [
  ['10 calls of 2026-07-28 at once', (call) => together(10, () => call.modern()), 'pay'],
  ['10 calls of a session at once', (call) => together(10, () => call.inSession()), 'pay'],
  [
    '5 calls of each protocol at once',
    (call) =>
      Promise.all(Array.from({ length: 5 }, () => [call.modern(), call.inSession()]).flat()),
    'pay',
  ],
  [
    'a call, and another one after its end',
    async (call) => [await call.modern(), await call.modern()],
    'pay',
  ],
  [
    'a call in a session, and another one outside',
    async (call) => [await call.inSession(), await call.modern()],
    'pay',
  ],
  [
    'members of the arguments in another order',
    async (call) => [await call.modern({ a: 1, b: 2 }), await call.modern({ b: 2, a: 1 })],
    'deal',
  ],
  ['a call that failed', async (call) => [await call.modern(), await call.modern()], 'fail'],
  [
    'a call whose client left',
    async (call) => {
      const leave = AbortSignal.timeout(20)
      await call.modern({}, leave).catch(() => undefined)
      return [await call.modern()]
    },
    'pay',
  ],
]

interface KeyedCall {
  modern(args?: Json, signal?: AbortSignal): Promise<Answer>
  inSession(): Promise<Answer>
}
type Sender = (call: KeyedCall) => Promise<readonly Answer[]>

const together = (count: number, send: () => Promise<Answer>): Promise<readonly Answer[]> =>
  Promise.all(Array.from({ length: count }, send))

function keyed(
  target: Target,
  { tool, message, key }: Readonly<Record<'tool' | 'message' | 'key', string>>,
): KeyedCall {
  const params = (args: Json) => ({
    name: tool,
    arguments: { message, ...args },
    _meta: { [KEY_NAME]: key },
  })
  const token = TOKENS.ada
  return {
    modern: (args = {}, signal) => modern(target, 'tools/call', { ...params(args), token, signal }),
    inSession: async () => (await Session.open(target, { token })).ask('tools/call', params({})),
  }
}

function keyProbes(target: Target): readonly Probe[] {
  const conflict = (name: string, over: Json): Probe =>
    probe(
      `the key of another call: ${name}`,
      async () => {
        const [message, key] = [randomUUID(), randomUUID()]
        const params = {
          name: 'pay',
          arguments: { message },
          _meta: { [KEY_NAME]: key },
          token: TOKENS.ada,
        }
        await modern(target, 'tools/call', params)
        const answer = await modern(target, 'tools/call', { ...params, ...over })
        return {
          reason: at(answer, 'error', 'data', 'reason') ?? textOf(answer),
          runs: target.runsOf(message),
        }
      },
      ({ reason, runs }) => runs === 1 && (reason === 'idempotency_conflict' || reason === 'other'),
    )
  return [
    ...DOUBLE_SENDS.map(([name, send, tool]) =>
      probe(
        `sent twice: ${name}`,
        async () => {
          const message = randomUUID()
          const before = target.agents.calls.length
          const answers = await send(keyed(target, { tool, message, key: randomUUID() }))
          const runs = target.agents.calls.length - before
          return { runs, texts: [...new Set(answers.map((each) => textOf(each)))] }
        },
        ({ runs, texts }) => runs === 1 && texts.length === 1 && texts[0] !== '',
      ),
    ),
    ...Object.entries(BAD_KEYS).map(([name, key]) =>
      probe(
        `a key that is ${name}`,
        async () => {
          const message = randomUUID()
          const params = { name: 'pay', arguments: { message }, _meta: { [KEY_NAME]: key } }
          const answer = await modern(target, 'tools/call', { ...params, token: TOKENS.ada })
          return { reason: reasonOf(answer), runs: target.runsOf(message) }
        },
        ({ reason, runs }) => reason === 'invalid_arguments' && runs === 0,
      ),
    ),
    conflict('other arguments', { arguments: { message: 'changed' } }),
    conflict('more arguments', { arguments: { message: 'changed', files: [] } }),
    probe(
      'the key of a call of another tool',
      async () => {
        const [message, key] = [randomUUID(), randomUUID()]
        await keyed(target, { tool: 'pay', message, key }).modern()
        return textOf(await keyed(target, { tool: 'echo', message, key }).modern())
      },
      (text) => !text.startsWith('paid'),
    ),
    ...['toString', '__proto__', 'constructor', 'claim:*', '../x'].map((key) =>
      probe(
        `the key ${key}`,
        async () => {
          const message = randomUUID()
          const own = keyed(target, { tool: 'pay', message, key })
          return [
            textOf(await own.modern()),
            textOf(await own.modern()),
            target.runsOf(message),
            message,
          ]
        },
        ([one, other, runs, message]) => one === `paid ${message}` && other === one && runs === 1,
      ),
    ),
  ]
}

const begin = async (target: Target, tool: string, message = 'task'): Promise<string> =>
  String(
    at(
      await modern(target, 'tools/call', {
        name: tool,
        arguments: { message },
        _meta: KNOWS_TASKS,
        token: TOKENS.ada,
      }),
      'result',
      'taskId',
    ),
  )

const ofTask =
  (target: Target, method: string) =>
  (taskId: unknown, over: Json = {}): Promise<Answer> =>
    modern(target, method, { taskId, _meta: KNOWS_TASKS, token: TOKENS.ada, ...over })

/** Polls until a task does not work any more. */
async function ended(target: Target, taskId: string): Promise<Answer> {
  for (;;) {
    const answer = await ofTask(target, 'tasks/get')(taskId)
    if (at(answer, 'result', 'status') !== 'working') return answer
    await sleep(20)
  }
}

/** Ids of tasks that do not exist. */
const BAD_TASKS: readonly unknown[] = [
  '',
  ' ',
  '__proto__',
  'call:*',
  '../x',
  7,
  null,
  {},
  ['x'],
  'x'.repeat(5000),
  'task_ x',
]

function taskProbes(target: Target): readonly Probe[] {
  return [
    ...BAD_TASKS.flatMap((id) =>
      ['tasks/get', 'tasks/cancel'].map((method) =>
        probe(
          `${method} of ${JSON.stringify(id)?.slice(0, 30)}`,
          () => ofTask(target, method)(id),
          (answer) =>
            (answer.status < 500 && at(answer, 'error', 'code') === -32_602) ||
            answer.status === 400,
        ),
      ),
    ),
    ...Object.entries(BAD_ANSWERS).map(([name, inputResponses]) =>
      probe(
        `answers to a task: ${name}`,
        async () => {
          const id = await begin(target, 'ask', randomUUID())
          await ended(target, id)
          const before = target.agents.calls.filter(({ resume }) => resume).length
          const { status } = await ofTask(target, 'tasks/update')(id, { inputResponses })
          await sleep(5)
          const continued = target.agents.calls.filter(({ resume }) => resume).length - before
          const state = at(await ended(target, id), 'result', 'status')
          await ofTask(target, 'tasks/cancel')(id)
          return { status, continued, state }
        },
        ({ status, continued, state }) =>
          status < 500 && continued === 0 && state === 'input_required',
      ),
    ),
    probe(
      'ten answers to one question of a task at once',
      async () => {
        const id = await begin(target, 'ask', randomUUID())
        await ended(target, id)
        const before = target.agents.calls.filter(({ resume }) => resume).length
        await together(10, () => ofTask(target, 'tasks/update')(id, { inputResponses: ANSWER }))
        const result = await ended(target, id)
        return {
          runs: target.agents.calls.filter(({ resume }) => resume).length - before,
          text: result.text,
        }
      },
      ({ runs, text }) => runs === 1 && text.includes('yes'),
    ),
    probe(
      'ten different answers to one question at once',
      async () => {
        const asked = await modern(target, 'tools/call', {
          name: 'ask',
          arguments: { message: 'race' },
          _meta: SHOWS_FORMS,
          token: TOKENS.ada,
        })
        const requestState = at(asked, 'result', 'requestState')
        const before = target.agents.calls.filter(({ resume }) => resume).length
        const answers = await Promise.all(
          Array.from({ length: 10 }, (_, n) =>
            modern(target, 'tools/call', {
              name: 'ask',
              arguments: { message: 'race' },
              _meta: SHOWS_FORMS,
              requestState,
              inputResponses: { i0: { action: 'accept', content: { answer: `answer ${n}` } } },
              token: TOKENS.ada,
            }),
          ),
        )
        return {
          runs: target.agents.calls.filter(({ resume }) => resume).length - before,
          refused: answers.filter((each) => reasonOf(each) === 'already_answered').length,
        }
      },
      ({ runs, refused }) => runs === 1 && refused === 9,
    ),
    probe(
      'a task that is cancelled ten times at once',
      async () => {
        const id = await begin(target, 'work')
        const answers = await together(10, () => ofTask(target, 'tasks/cancel')(id))
        return {
          kinds: [...new Set(answers.map(({ status }) => status))],
          state: at(await ended(target, id), 'result', 'status'),
        }
      },
      ({ kinds, state }) => kinds.join() === '200' && state === 'cancelled',
    ),
    probe(
      'a task that is cancelled after its end',
      async () => {
        const id = await begin(target, 'deal', 'kept')
        await ended(target, id)
        await ofTask(target, 'tasks/cancel')(id)
        return at(await ofTask(target, 'tasks/get')(id), 'result', 'status')
      },
      (state) => state === 'completed',
    ),
    probe(
      'an answer to a task that has ended',
      async () => {
        const id = await begin(target, 'deal', 'once more')
        await ended(target, id)
        await ofTask(target, 'tasks/update')(id, { inputResponses: ANSWER })
        return [
          at(await ofTask(target, 'tasks/get')(id), 'result', 'status'),
          target.runsOf('once more'),
        ]
      },
      ([state, runs]) => state === 'completed' && runs === 1,
    ),
    probe(
      'a task of a client that does not know tasks',
      async () =>
        modern(target, 'tasks/get', { taskId: await begin(target, 'deal'), token: TOKENS.ada }),
      (answer) => answer.status === 400 && at(answer, 'error', 'code') === -32_021,
    ),
    probe(
      'more tasks than a caller may have',
      async () => {
        const ids = await Promise.all(
          Array.from({ length: 150 }, () => begin(target, 'deal', 'many')),
        )
        return {
          tasks: ids.filter((id) => id !== 'undefined').length,
          calls: target.runsOf('many'),
        }
      },
      ({ tasks, calls }) => tasks < 150 && calls === 150,
    ),
  ]
}

export const calls: Kind = {
  name: 'calls',
  rule: 'a call runs once for its key, whatever is sent again',
  async prepare(stack) {
    const target = await startTarget(stack, {
      store: new MemoryGatewayStore(),
      auth: knownCallers(),
      tasks: { maxPerPrincipal: 100 },
      runs: { maxConcurrent: 1000, maxConcurrentPerPrincipal: 1000 },
      tools: {
        overrides: { work: { tasks: 'always' }, deal: { tasks: 'always' }, ask: { tasks: 'auto' } },
      },
    })
    target.agents.join('deal', function* () {
      yield { type: 'done', text: 'dealt' }
    })
    target.agents.join('fail', function* () {
      yield { type: 'failed', reason: 'No money' }
    })
    return {
      probes: [...keyProbes(target), ...taskProbes(target)],
      honest: honestClients('a gateway', target, { token: TOKENS.ada }),
    }
  },
}
