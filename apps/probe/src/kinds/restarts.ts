// Answers and repeats that reach a gateway after it has started again, with or without the threads of its graphs.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { isRecord } from '@x/internal'
import { sourceNode, temporaryFolder, type TemporaryFolder } from '@x/internal/testing'
import { eventsOf } from '../../../../packages/mcp-gateway/test/rpc-requests.ts'
import {
  at,
  KEY_NAME,
  KNOWS_TASKS,
  modern,
  Session,
  SHOWS_FORMS,
  toAnswer,
  type Address,
  type Answer,
  type Json,
} from '../client.ts'
import { probe, type Kind, type Probe } from '../probe.ts'
import { honestClients, TOKENS } from '../target.ts'
import type { RestartSpec } from '../restart-process.ts'

const token = TOKENS.ada
/** The client learns that its call may have been executed. */
const isUnknown = (text: string): boolean => text.includes('"outcome_unknown"')

/** A gateway in a process of its own, with its store on disk. Its threads are on disk, too, or in its memory. */
class Gateway implements Address {
  readonly folder: TemporaryFolder
  readonly spec: Omit<RestartSpec, 'folder'>
  port = 0
  #process: ChildProcess | undefined

  constructor(folder: TemporaryFolder, spec: Omit<RestartSpec, 'folder'>) {
    this.folder = folder
    this.spec = spec
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/mcp`
  }

  async start(): Promise<void> {
    const spec: RestartSpec = { ...this.spec, folder: this.folder.path }
    const program = fileURLToPath(new URL('../restart-process.ts', import.meta.url))
    const child = fork(program, [JSON.stringify(spec)], {
      execPath: sourceNode,
      execArgv: ['--conditions=mcp-source', '--no-warnings'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#process = child
    const ended = once(child, 'exit').then(() => Promise.reject(new Error('The gateway ended')))
    ended.catch(() => undefined)
    const [message] = (await Promise.race([once(child, 'message'), ended])) as [{ port: number }]
    this.port = message.port
  }

  /** SIGKILL, and another process. */
  async restart(): Promise<void> {
    await this.kill()
    await this.start()
  }

  async kill(): Promise<void> {
    const child = this.#process
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  /** Number of times that a node began its work for this text. */
  async effectsOf(text: string): Promise<number> {
    const written = await readFile(this.folder.file('effects'), 'utf8').catch(() => '')
    return written.split('\n').filter((line) => line === text).length
  }
}

let last = 0
/** A text that no other call has. */
const newText = (): string => `order ${++last}`
const newKey = (): string => `key-${++last}-that-nobody-can-guess-0123456789`

const callOf =
  (gateway: Gateway, name: string) =>
  (message: string, over: Json = {}): Promise<Answer> =>
    modern(gateway, 'tools/call', { name, arguments: { message }, token, ...over })

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))

/** Waits until a node has begun its work for a text. */
async function begun(gateway: Gateway, text: string): Promise<void> {
  while ((await gateway.effectsOf(text)) === 0) await pause()
}

/** The state of a task that does not work any more. */
async function settled(gateway: Gateway, taskId: unknown): Promise<Answer> {
  for (;;) {
    const answer = await modern(gateway, 'tasks/get', { taskId, _meta: KNOWS_TASKS, token })
    if (at(answer, 'result', 'status') !== 'working') return answer
    await pause()
  }
}

/** A call before the restart. @returns what its client does after it */
type Before = (gateway: Gateway, text: string) => Promise<() => Promise<Answer>>

/** What a person answers, by the tool that asks. */
const ANSWERS: Readonly<Record<string, unknown>> = { ask: 'yes', nest: 'yes', stop: true }

/** Ways in which a client is asked before the restart, and answers after it. */
const ASKED: Readonly<Record<string, (tool: string) => Before>> = {
  'a form of 2026-07-28': (tool) => async (gateway, text) => {
    const asked = await callOf(gateway, tool)(text, { _meta: SHOWS_FORMS })
    const requestState = at(asked, 'result', 'requestState')
    const inputResponses = { i0: { action: 'accept', content: { answer: ANSWERS[tool] } } }
    return () => callOf(gateway, tool)(text, { _meta: SHOWS_FORMS, requestState, inputResponses })
  },
  'a form of a call with a key': (tool) => async (gateway, text) => {
    const over = { _meta: { ...SHOWS_FORMS, [KEY_NAME]: newKey() } }
    const requestState = at(await callOf(gateway, tool)(text, over), 'result', 'requestState')
    const inputResponses = { i0: { action: 'accept', content: { answer: ANSWERS[tool] } } }
    return () => callOf(gateway, tool)(text, { ...over, requestState, inputResponses })
  },
  'the argument "resume"': (tool) => async (gateway, text) => {
    const run = at(await callOf(gateway, tool)(text), 'result', 'structuredContent', 'run')
    const resume = { run, answers: { i0: { answer: ANSWERS[tool] } } }
    return () => callOf(gateway, tool)(text, { arguments: { message: text, resume } })
  },
  'the argument "resume" in a session': (tool) => async (gateway, text) => {
    const session = await Session.open(gateway, { token })
    const asked = await session.ask('tools/call', { name: tool, arguments: { message: text } })
    const run = at(asked, 'result', 'structuredContent', 'run')
    const resume = { run, answers: { i0: { answer: ANSWERS[tool] } } }
    const params = { name: tool, arguments: { message: text, resume } }
    return async () => session.ask('tools/call', params)
  },
  'a task': (tool) => async (gateway, text) => {
    const task = await callOf(gateway, tool)(text, { _meta: KNOWS_TASKS })
    const taskId = at(task, 'result', 'taskId')
    const questions = at(await settled(gateway, taskId), 'result', 'inputRequests')
    const content = { answer: ANSWERS[tool] }
    const names = Object.keys(isRecord(questions) ? questions : {})
    const inputResponses = Object.fromEntries(
      names.map((name) => [name, { action: 'accept', content }]),
    )
    return async () => {
      const update = { taskId, inputResponses, _meta: KNOWS_TASKS, token }
      await modern(gateway, 'tasks/update', update)
      return settled(gateway, taskId)
    }
  },
}

/** Calls that are in flight when their process is killed, and what their clients do after that. */
const IN_FLIGHT: Readonly<Record<string, Before>> = {
  async 'is sent again with its key'(gateway, text) {
    const over = { _meta: { [KEY_NAME]: newKey() } }
    void callOf(gateway, 'slow')(text, over).catch(() => undefined)
    await begun(gateway, text)
    return () => callOf(gateway, 'slow')(text, over)
  },
  async 'is sent again with its key in its session'(gateway, text) {
    const session = await Session.open(gateway, { token })
    const params = {
      name: 'slow',
      arguments: { message: text },
      _meta: { [KEY_NAME]: newKey() },
    }
    void session.ask('tools/call', params).catch(() => undefined)
    await begun(gateway, text)
    return () => session.ask('tools/call', params)
  },
  async 'is resumed by the id of its last event'(gateway, text) {
    const session = await Session.open(gateway, { token })
    const params = { name: 'slow', arguments: { message: text }, _meta: { progressToken: 1 } }
    const response = await session.stream({ id: 3, method: 'tools/call', params })
    let seen = ''
    for await (const { id } of eventsOf(response)) {
      seen = id ?? seen
      if ((await gateway.effectsOf(text)) > 0) break
    }
    return async () => toAnswer(await session.listen({ 'last-event-id': seen }))
  },
  async 'is a task'(gateway, text) {
    const task = await callOf(gateway, 'slowly')(text, { _meta: KNOWS_TASKS })
    await begun(gateway, text)
    return () => settled(gateway, at(task, 'result', 'taskId'))
  },
}

/** Begins all calls, kills the process once, and makes a probe of each call. */
function probesAround(
  gateway: Gateway,
  all: Readonly<Record<string, Before>>,
  holds: (after: { readonly answers: readonly string[]; readonly effects: number }) => boolean,
): readonly Probe[] {
  const begin = async () => {
    const calls = new Map<string, { text: string; after: () => Promise<Answer> }>()
    for (const [name, before] of Object.entries(all)) {
      const text = newText()
      calls.set(name, { text, after: await before(gateway, text) })
    }
    await gateway.restart()
    return calls
  }
  let calls: ReturnType<typeof begin> | undefined
  return Object.keys(all).map((name) =>
    probe(
      name,
      async () => {
        calls ??= begin()
        const own = (await calls).get(name)
        if (!own) throw new Error('The call did not begin')
        const answers = [(await own.after()).text, (await own.after()).text]
        return { answers, effects: await gateway.effectsOf(own.text) }
      },
      holds,
    ),
  )
}

/** Calls that ask, by all ways and tools. */
const asked = (where: string, tools: readonly string[]): Readonly<Record<string, Before>> =>
  Object.fromEntries(
    tools.flatMap((tool) =>
      Object.entries(ASKED).map(([way, ask]) => [
        `an answer to a graph that ${tool}s ${where}, by ${way}`,
        ask(tool),
      ]),
    ),
  )

export const restarts: Kind = {
  name: 'restarts',
  rule: 'after a restart, nothing runs a second time',
  async prepare(stack) {
    const gateways: Gateway[] = []
    for (const keepsThreads of [false, true]) {
      const gateway = new Gateway(stack.use(await temporaryFolder()), { keepsThreads })
      stack.defer(() => gateway.kill())
      await gateway.start()
      gateways.push(gateway)
    }
    const [forgetting, keeping] = gateways
    if (!forgetting || !keeping) throw new Error('Two gateways were started')
    return {
      probes: [
        ...probesAround(
          forgetting,
          asked('and whose thread was lost', ['ask', 'stop', 'nest']),
          ({ answers, effects }) => effects === 1 && answers.every(isUnknown),
        ),
        ...probesAround(
          keeping,
          asked('and whose thread is there', ['ask', 'stop', 'nest']),
          ({ answers, effects }) => effects === 1 && answers.every((text) => text.includes('done')),
        ),
        ...probesAround(
          forgetting,
          Object.fromEntries(
            Object.entries(IN_FLIGHT).map(([name, before]) => [`a killed call ${name}`, before]),
          ),
          ({ answers, effects }) => effects === 1 && answers.every(isUnknown),
        ),
      ],
      honest: [
        ...honestClients('a gateway without threads', forgetting, { token }),
        ...honestClients('a gateway with threads', keeping, { token }),
      ],
    }
  },
}
