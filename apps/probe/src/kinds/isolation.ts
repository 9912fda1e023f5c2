// Another caller, who knows all names, asks for the sessions, tasks, files and questions of a caller.
import { randomBytes } from 'node:crypto'
import {
  at,
  bearer,
  KEY_NAME,
  KNOWS_TASKS,
  modern,
  reasonOf,
  Session,
  SHOWS_FORMS,
  textOf,
  toAnswer,
  type Answer,
  type Json,
} from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import {
  allStores,
  honestClients,
  knownCallers,
  startTarget,
  TOKENS,
  type Target,
} from '../target.ts'

const ada = { token: TOKENS.ada }
const bob = { token: TOKENS.bob }

function call(target: Target, name: string, params: Json & { token?: string | undefined }) {
  return modern(target, 'tools/call', { arguments: { message: 'hers' }, ...params, name })
}

/** The same answer as for a name that was made up. */
const areAlike = (one: Answer, other: Answer): boolean =>
  one.status === other.status && at(one, 'error', 'code') === at(other, 'error', 'code')

/** Requests of `bob` in a session of `ada`, by their names. Each must be answered as in an unknown session. */
const IN_HER_SESSION: Readonly<
  Record<string, (url: string, id: string, headers: Json) => Promise<Response>>
> = Object.fromEntries(
  Object.entries({
    'a request': { method: 'POST', body: '{"jsonrpc":"2.0","id":9,"method":"tools/list"}' },
    'a call': {
      method: 'POST',
      body: '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"pay","arguments":{"message":"stolen"}}}',
    },
    'a notification': {
      method: 'POST',
      body: '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    },
    'an answer': { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"result":{}}' },
    'a stream': { method: 'GET' },
    'the end of the session': { method: 'DELETE' },
  }).map(([name, init]) => [
    name,
    (url: string, id: string) =>
      fetch(url, {
        ...init,
        headers: {
          accept: 'application/json, text/event-stream',
          'content-type': 'application/json',
          'mcp-session-id': id,
          ...bearer(bob.token),
        },
      }),
  ]),
)

function sessionProbes(target: Target): readonly Probe[] {
  return Object.entries(IN_HER_SESSION).map(([name, send]) =>
    probe(
      `${name} in a session of another caller`,
      async () => {
        const session = await Session.open(target, ada)
        const answer = await toAnswer(await send(target.url, session.id, {}))
        const ping = await session.ask('ping')
        return { status: answer.status, text: answer.text, ping: ping.status }
      },
      ({ status, ping }) => status === 404 && ping === 200 && target.runsOf('stolen') === 0,
    ),
  )
}

/** Starts the question of `ask`, and returns the state with which it is answered. */
async function questionOf(target: Target): Promise<unknown> {
  return at(await call(target, 'ask', { _meta: SHOWS_FORMS, ...ada }), 'result', 'requestState')
}

const ANSWER = { i0: { action: 'accept', content: { answer: 'hers' } } }

/** The handle with which a model answers. */
async function handleOf(target: Target): Promise<string> {
  return String(at(await call(target, 'ask', ada), 'result', 'structuredContent', 'run'))
}

const answerTo = (target: Target, requestState: unknown, over: Json = {}): Promise<Answer> =>
  call(target, 'ask', { _meta: SHOWS_FORMS, requestState, inputResponses: ANSWER, ...ada, ...over })

const resumeOf = (target: Target, run: string, over: Json = {}): Promise<Answer> =>
  call(target, 'ask', {
    arguments: { message: 'hers', resume: { run, answers: { i0: { answer: 'hers' } } } },
    ...ada,
    ...over,
  })

/** Answers that must not continue the run of `ada`. */
const FOREIGN_ANSWERS: Readonly<Record<string, (target: Target) => Promise<Answer>>> = {
  'by another caller': async (target) => answerTo(target, await questionOf(target), bob),
  'to another tool': async (target) =>
    modern(target, 'tools/call', {
      name: 'echo',
      arguments: { message: 'hers' },
      _meta: SHOWS_FORMS,
      requestState: await questionOf(target),
      inputResponses: ANSWER,
      ...ada,
    }),
  'with other arguments': async (target) =>
    answerTo(target, await questionOf(target), { arguments: { message: 'changed' } }),
  'with a state that was changed': async (target) => {
    const state = String(await questionOf(target))
    return answerTo(target, state.slice(0, 20) + (state[20] === 'A' ? 'B' : 'A') + state.slice(21))
  },
  'with a state that was cut': async (target) =>
    answerTo(target, String(await questionOf(target)).slice(0, -5)),
  'with a state that is an object': async (target) => answerTo(target, { runId: 'x', round: 1 }),
  'with a state of 100,000 characters': async (target) => answerTo(target, 'A'.repeat(100_000)),
  'with the handle of another caller': async (target) =>
    resumeOf(target, await handleOf(target), bob),
  'with the handle and a longer secret': async (target) =>
    resumeOf(target, `${await handleOf(target)}0`),
  'with the handle and another secret': async (target) =>
    resumeOf(
      target,
      (await handleOf(target)).replace(/.$/, (last) => (last === 'a' ? 'b' : 'a')),
    ),
  'with the handle of another round': async (target) =>
    resumeOf(target, (await handleOf(target)).replace(/\.1\./, '.2.')),
  'with the id of the run alone': async (target) =>
    resumeOf(target, (await handleOf(target)).split('.')[0] ?? ''),
  'with a handle that is a key of the store': async (target) => resumeOf(target, 'call:*.1.x'),
  'with __proto__ as a handle': async (target) => resumeOf(target, '__proto__.1.x'),
}

function questionProbes(target: Target): readonly Probe[] {
  const attacks = Object.entries(FOREIGN_ANSWERS).map(([name, attack]) =>
    probe(
      `an answer to a question ${name}`,
      async () => {
        const before = target.agents.calls.filter(({ resume }) => resume).length
        const answer = await attack(target)
        const continued = target.agents.calls.filter(({ resume }) => resume).length - before
        return {
          continued,
          text: answer.text,
          isError: at(answer, 'result', 'isError') ?? 'error' in answer.message,
        }
      },
      ({ continued, isError }) => continued === 0 && isError === true,
    ),
  )
  const own = probe(
    'the answers of the caller itself',
    async () => [
      textOf(await answerTo(target, await questionOf(target))),
      textOf(await resumeOf(target, await handleOf(target))),
    ],
    (texts) => texts.every((text) => text.includes('"hers"')),
  )
  return [...attacks, own]
}

/** A task of `ada` that works, or that asks. */
async function taskOf(target: Target, tool = 'work'): Promise<string> {
  return String(at(await call(target, tool, { _meta: KNOWS_TASKS, ...ada }), 'result', 'taskId'))
}

/** Sends a request about a task, by default as `bob`. */
const ofTask =
  (target: Target, method: string) =>
  (taskId: string, over: Json = bob): Promise<Answer> =>
    modern(target, method, { taskId, inputResponses: ANSWER, _meta: KNOWS_TASKS, ...over })

function taskProbes(target: Target): readonly Probe[] {
  return ['tasks/get', 'tasks/update', 'tasks/cancel'].map((method) =>
    probe(
      `${method} of a task of another caller`,
      async () => {
        const id = await taskOf(target)
        const madeUp = id.replace(/[\da-f](?=[^.]*$)/, (digit) => (digit === '0' ? '1' : '0'))
        const foreign = await ofTask(target, method)(id)
        const unknown = await ofTask(target, method)(madeUp)
        const own = await ofTask(target, 'tasks/get')(id, ada)
        const status = at(own, 'result', 'status')
        await ofTask(target, 'tasks/cancel')(id, ada)
        return { foreign, unknown, status }
      },
      ({ foreign, unknown, status }) =>
        'error' in foreign.message && areAlike(foreign, unknown) && status === 'working',
    ),
  )
}

function callProbes(target: Target): readonly Probe[] {
  const key = 'a-key-that-both-callers-use-0123456789'
  const keyed = (token: string, message: string): Promise<Answer> =>
    call(target, 'pay', { arguments: { message }, _meta: { [KEY_NAME]: key }, token })
  return [
    probe(
      'the idempotency key of another caller, with the same call',
      async () => [await keyed(ada.token, 'same'), await keyed(bob.token, 'same')],
      ([, his]) =>
        target.runsOf('same') === 2 && his !== undefined && !his.text.includes('replayed'),
    ),
    probe(
      'the idempotency key of another caller, with another call',
      () => keyed(bob.token, 'same'),
      (his) => textOf(his) === 'paid same' && his.text.includes('replayed'),
    ),
    probe(
      'cancels the call of another caller by its id',
      async () => {
        const [hers, his] = [await Session.open(target, ada), await Session.open(target, bob)]
        const answer = hers.send({
          id: 1,
          method: 'tools/call',
          params: { name: 'pay', arguments: { message: 'kept' } },
        })
        await his.send({ method: 'notifications/cancelled', params: { requestId: 1 } })
        return textOf(await answer)
      },
      (text) => text === 'paid kept',
    ),
    probe(
      'the cached result of another caller',
      async () => {
        const results = [ada, ada, bob].map((who) =>
          call(target, 'whoami', { arguments: { message: 'Who?' }, ...who }),
        )
        return (await Promise.all(results)).map(textOf)
      },
      (texts) => texts.join() === 'ada,ada,bob',
    ),
    probe(
      'a conversation that the caller names',
      async () => {
        const meta = { thread: 'of-ada', thread_id: 'of-ada', threadId: 'of-ada' }
        for (const who of [ada, bob]) {
          await call(target, 'echo', {
            arguments: { message: 'talk', ...meta },
            _meta: meta,
            ...meta,
            ...who,
          })
          await call(target, 'echo', {
            arguments: { message: 'talk' },
            _meta: meta,
            ...meta,
            ...who,
          })
        }
        return target.agents.calls
          .filter(({ input }) => JSON.stringify(input).includes('talk'))
          .map(({ thread, principal }) => [principal.id, thread])
      },
      (calls) => {
        const names = new Set(calls.map(([, thread]) => thread))
        return calls.length >= 2 && names.size === 2 && !names.has('of-ada')
      },
    ),
    ...(['tools/list', 'prompts/list', 'resources/list'] as const).map((method) =>
      probe(
        `${method} for a caller that may call nothing`,
        () => modern(target, method, { token: TOKENS.carl }),
        (answer) =>
          (Object.values(at(answer, 'result') ?? {}).find(Array.isArray) as unknown[] | undefined)
            ?.length === 0,
      ),
    ),
    probe(
      'a call that the caller may not make',
      () => call(target, 'pay', { arguments: { message: 'not allowed' }, token: TOKENS.carl }),
      ({ status, headers }) =>
        status === 403 &&
        (headers.get('www-authenticate') ?? '').includes('scope="agent:pay:call"') &&
        target.runsOf('not allowed') === 0,
    ),
    probe(
      'the same call in a session',
      async () =>
        (await Session.open(target, { token: TOKENS.carl })).ask('tools/call', {
          name: 'pay',
          arguments: { message: 'not allowed' },
        }),
      ({ status }) => status === 403 && target.runsOf('not allowed') === 0,
    ),
  ]
}

const GUESSES = 100

/** Made-up names. None may be found, and all get the same answer. */
function guessProbes(target: Target): readonly Probe[] {
  const hex = (): string => randomBytes(16).toString('hex')
  const guess = (name: string, ask: () => Promise<Answer>): Probe =>
    probe(
      `${GUESSES} guesses of ${name}`,
      async () => {
        const answers = await Promise.all(Array.from({ length: GUESSES }, ask))
        return [
          ...new Set(
            answers.map(
              (each) => `${each.status} ${String(at(each, 'error', 'code') ?? reasonOf(each))}`,
            ),
          ),
        ]
      },
      (kinds) =>
        kinds.length === 1 && /^404 |^200 -32602$|^200 expired$|^200 invalid/.test(kinds[0] ?? ''),
    )
  return [
    guess('a session', async () => {
      const headers = { 'mcp-session-id': hex(), accept: 'text/event-stream', ...bearer(bob.token) }
      return toAnswer(await fetch(target.url, { headers }))
    }),
    guess('a task', () => ofTask(target, 'tasks/get')(hex())),
    guess('a question', () =>
      resumeOf(target, `run_${hex().slice(0, 16)}.1.${hex().slice(0, 16)}`, bob),
    ),
  ]
}

function anonymousProbes(target: Target): readonly Probe[] {
  return [
    probe(
      'a short idempotency key, which others could guess',
      () =>
        call(target, 'pay', {
          arguments: { message: 'guessed' },
          _meta: { [KEY_NAME]: 'order-1' },
        }),
      (answer) => reasonOf(answer) === 'invalid_arguments' && target.runsOf('guessed') === 0,
    ),
    probe(
      'a task of another client without a name, by a made-up id',
      () =>
        modern(target, 'tasks/get', {
          taskId: randomBytes(24).toString('base64url'),
          _meta: KNOWS_TASKS,
        }),
      (answer) => at(answer, 'error', 'code') === -32_602,
    ),
  ]
}

export const isolation: Kind = {
  name: 'isolation',
  rule: 'what belongs to one caller is not there for another one',
  async prepare(stack) {
    const probes: Probe[] = []
    const honest: Probe[] = []
    let stores = 0
    for await (const [name, store] of allStores(stack)) {
      stores++
      const target = await startTarget(stack, {
        store,
        auth: knownCallers(),
        runs: { mode: 'thread', maxConcurrentPerPrincipal: 32 },
        stateKey: 'a key of at least thirty-two characters',
        tools: { overrides: { work: { tasks: 'always' }, whoami: { cacheTtlMs: 60_000 } } },
      })
      target.agents.join('whoami', function* ({ principal }) {
        yield { type: 'done', text: principal.id }
      })
      const all = [sessionProbes, questionProbes, taskProbes, callProbes, guessProbes]
      for (const made of all.flatMap((make) => make(target))) {
        probes.push({ ...made, name: `${name}: ${made.name}` })
      }
      honest.push(...honestClients(name, target, ada))
    }
    const open = await startTarget(stack)
    probes.push(...anonymousProbes(open))
    return {
      probes,
      honest: [...honest, ...honestClients('a gateway without auth', open)],
      ...(stores < 3 && { leftOut: 'a gateway on Redis: redis-server is not installed' }),
    }
  },
}
