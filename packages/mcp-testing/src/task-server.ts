import { randomUUID } from 'node:crypto'
import { isRecord } from '@x/internal'
import type { ScriptedAnswer } from './scripted-answer.ts'
import type { ScriptRequest } from './scripted-server.ts'
import { discoverResult, ScriptedServer } from './scripted-server.ts'

export interface TaskServerOptions {
  /** Time from its creation for which a task is kept; `null` for ever. @default 60_000 */
  readonly ttlMs?: number | null | undefined
  /** @default 100 */
  readonly pollIntervalMs?: number | undefined
  /** Runs calls with the same idempotency key once. @default false */
  readonly honoursKeys?: boolean | undefined
}

/** A task of a {@link TaskServer}, with the fields that `tasks/get` returns. */
export interface TestTask {
  readonly taskId: string
  readonly tool: string
  readonly principal: string | undefined
  readonly createdAt: string
  readonly answers: Readonly<Record<string, unknown>>
  readonly status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  readonly statusMessage?: string | undefined
  readonly inputRequests?: Readonly<Record<string, object>> | undefined
  readonly result?: Readonly<Record<string, unknown>> | undefined
  readonly error?: { readonly code: number; readonly message: string } | undefined
}

type TaskChange = Partial<
  Pick<TestTask, 'status' | 'statusMessage' | 'inputRequests' | 'result' | 'error'>
>

/**
 * Starts a {@link TaskServer} on a free port of 127.0.0.1.
 *
 * @example
 * ```ts
 * import { startTaskServer } from '@x/mcp-testing'
 *
 * await using server = await startTaskServer() // its calls become tasks
 * console.log(server.url)
 * ```
 */
export async function startTaskServer(options: TaskServerOptions = {}): Promise<TaskServer> {
  const server = new TaskServer(options)
  await server.start()
  return server
}

const TASKS = 'io.modelcontextprotocol/tasks'
const IDEMPOTENCY = 'io.github.x-mcp/idempotency'
const IDEMPOTENCY_KEY = 'io.github.x-mcp/idempotency-key'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
/** Time that the failing tools take. */
const FAILURE_MS = 20

/**
 * A server of 2026-07-28 whose tools become tasks (the extension `io.modelcontextprotocol/tasks`). Its tools:
 *
 * - `greet {name}`: never a task
 * - `slow_compute {seconds?, label?}`: a task that ends after that time, else when the test changes it
 * - `typed_compute`: the same, with an output schema
 * - `failing_job`: only for clients that declare the extension; the tool reports a failure
 * - `protocol_error_job`: a task that fails
 * - `confirm_delete {filename}`, `multi_input`: tasks with one question, and with two at once
 * - `test_tool_with_task`: a question before the task
 */
export class TaskServer extends ScriptedServer {
  /** The tasks by their ids. Delete one, and the server does not know it. Kept by a restart. */
  readonly tasks: Map<string, TestTask> = new Map<string, TestTask>()
  /** Tools in the order in which they ran. A call that joins another one by its key does not run. */
  readonly runs: string[] = []
  /** Runs calls with the same idempotency key once, and says so. */
  honoursKeys: boolean
  /** Changes the answers to `tasks/get`. */
  onGet: ((answer: Record<string, unknown>) => Record<string, unknown>) | undefined
  readonly #options: TaskServerOptions
  readonly #byKey = new Map<string, { readonly args: string; readonly answer: ScriptedAnswer }>()

  constructor(options: TaskServerOptions) {
    super({})
    this.#options = options
    this.honoursKeys = options.honoursKeys ?? false
    this.answers = (request) => this.#answerTo(request)
  }

  /** The only task, or the one that was created last. */
  get lastTask(): TestTask {
    const task = [...this.tasks.values()].at(-1)
    if (task === undefined) throw new Error('There is no task yet')
    return task
  }

  /** Changes a task. @default the last task */
  change(change: TaskChange, { taskId }: TestTask = this.lastTask): void {
    const task = this.tasks.get(taskId)
    if (task !== undefined) this.tasks.set(taskId, { ...task, ...change })
  }

  /** Ends a task with a result. @default the last task */
  complete(text: string, task?: TestTask): void {
    this.change(completed(text), task)
  }

  #answerTo({ message, headers }: ScriptRequest): ScriptedAnswer | undefined {
    const { method = '', params = {} } = message
    const principal = headers['authorization']?.toString()
    switch (method) {
      case 'server/discover':
        return { result: this.#discovered() }
      case 'tools/list':
        return { result: { tools: TOOLS, ttlMs: 0, cacheScope: 'private' } }
      case 'tools/call':
        return this.#call(params, principal)
      case 'tasks/get':
      case 'tasks/update':
      case 'tasks/cancel': {
        if (!declares(params)) return undeclared()
        const task = this.tasks.get(String(params['taskId']))
        if (task === undefined || task.principal !== principal) {
          return { error: { code: -32602, message: 'Unknown or expired task' } }
        }
        if (method === 'tasks/get') {
          const detailed = this.#detailed(task)
          return { result: this.onGet?.(detailed) ?? detailed }
        }
        if (method === 'tasks/update') this.#answered(task, params['inputResponses'])
        else if (isOpen(task)) this.change({ status: 'cancelled' }, task)
        return { result: {} }
      }
      default:
        return undefined
    }
  }

  #discovered(): Readonly<Record<string, unknown>> {
    const { capabilities } = discoverResult
    const extensions = {
      [TASKS]: {},
      ...(this.honoursKeys && {
        [IDEMPOTENCY]: { retentionMs: 86_400_000, inFlight: 'join' },
      }),
    }
    return { ...discoverResult, capabilities: { ...(capabilities as object), extensions } }
  }

  #call(
    params: Readonly<Record<string, unknown>>,
    principal: string | undefined,
  ): ScriptedAnswer | undefined {
    const meta = isRecord(params['_meta']) ? params['_meta'] : {}
    const key = this.honoursKeys ? meta[IDEMPOTENCY_KEY] : undefined
    if (key === undefined) return this.#run(params, principal)
    const { name, arguments: given, inputResponses } = params
    const args = JSON.stringify([given, inputResponses])
    const scoped = JSON.stringify([principal, name, key])
    const known = this.#byKey.get(scoped)
    if (known !== undefined && known.args !== args && inputResponses === undefined) {
      const data = { reason: 'idempotency_conflict' }
      return { error: { code: -32602, message: 'The key was used with other arguments', data } }
    }
    if (known?.args === args) return known.answer
    const answer = this.#run(params, principal)
    if (answer !== undefined) this.#byKey.set(scoped, { args, answer })
    return answer
  }

  #run(
    params: Readonly<Record<string, unknown>>,
    principal: string | undefined,
  ): ScriptedAnswer | undefined {
    const { arguments: given, inputResponses } = params
    const args = isRecord(given) ? given : {}
    const tool = String(params['name'])
    const isDeclared = declares(params)
    const start = (change: TaskChange = {}): ScriptedAnswer => {
      this.runs.push(tool)
      const fields = { taskId: randomUUID(), createdAt: new Date().toISOString(), answers: {} }
      const task: TestTask = { status: 'working', tool, principal, ...fields, ...change }
      this.tasks.set(task.taskId, task)
      return { result: { ...this.#flat(task), resultType: 'task' } }
    }
    const finish = (text: string): ScriptedAnswer => {
      this.runs.push(tool)
      return { result: textResult(text) }
    }
    switch (tool) {
      case 'greet':
        return finish(`Hello, ${String(args['name'])}!`)
      case 'slow_compute':
      case 'typed_compute': {
        const { seconds, label = 'computed' } = args
        if (!isDeclared) return finish(String(label))
        const answer = start({ statusMessage: 'computing' })
        if (typeof seconds === 'number') this.#later(seconds * 1000, completed(String(label)))
        return answer
      }
      case 'failing_job':
      case 'protocol_error_job': {
        if (!isDeclared) return undeclared()
        const answer = start()
        const result = { ...textResult('the job failed'), isError: true }
        const error = { code: -32603, message: 'the job broke' }
        const isReported = tool === 'failing_job'
        this.#later(
          FAILURE_MS,
          isReported ? { status: 'completed', result } : { status: 'failed', error },
        )
        return answer
      }
      case 'confirm_delete':
        return start(asking({ confirm: form(`Delete ${String(args['filename'])}?`) }))
      case 'multi_input':
        return start(asking({ first: form('First name?'), last: form('Last name?') }))
      case 'test_tool_with_task': {
        if (!isRecord(inputResponses)) {
          const inputRequests = { user_name: form('Your name?') }
          return { result: { resultType: 'input_required', inputRequests, requestState: 's1' } }
        }
        const answer = start()
        this.#later(FAILURE_MS, completed(JSON.stringify(inputResponses)))
        return answer
      }
      default:
        return { error: { code: -32602, message: `Unknown tool ${tool}` } }
    }
  }

  /** Changes the last task after a time, if it has not ended by then. */
  #later(ms: number, change: TaskChange): void {
    const { taskId } = this.lastTask
    setTimeout(() => {
      const task = this.tasks.get(taskId)
      if (task !== undefined && isOpen(task)) this.change(change, task)
    }, ms).unref()
  }

  /** Takes answers to open questions, and ignores others. The task ends with the last answer. */
  #answered(task: TestTask, inputResponses: unknown): void {
    const open = { ...task.inputRequests }
    const taken = Object.entries(isRecord(inputResponses) ? inputResponses : {}).filter(([key]) =>
      Object.hasOwn(open, key),
    )
    if (!isOpen(task) || taken.length === 0) return
    for (const [key] of taken) delete open[key]
    const answers = { ...task.answers, ...Object.fromEntries(taken) }
    this.tasks.set(task.taskId, { ...task, answers })
    const isDone = Object.keys(open).length === 0
    this.change(isDone ? completed(JSON.stringify(answers)) : { inputRequests: open }, task)
  }

  #flat({ taskId, status, statusMessage, createdAt }: TestTask): Record<string, unknown> {
    const { ttlMs = 60_000, pollIntervalMs = 100 } = this.#options
    const lastUpdatedAt = new Date().toISOString()
    return { taskId, status, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs }
  }

  #detailed(task: TestTask): Record<string, unknown> {
    const { status, inputRequests, result, error } = task
    return {
      ...this.#flat(task),
      ...(status === 'input_required' ? { inputRequests } : {}),
      ...(status === 'completed' ? { result: { resultType: 'complete', ...result } } : {}),
      ...(status === 'failed' ? { error } : {}),
    }
  }
}

const SUM = { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] }

const TOOLS = [
  'greet',
  'slow_compute',
  'failing_job',
  'protocol_error_job',
  'confirm_delete',
  'multi_input',
  'test_tool_with_task',
  'typed_compute',
].map((name) => ({
  name,
  inputSchema: { type: 'object' },
  ...(name === 'typed_compute' && { outputSchema: SUM }),
}))

function isOpen({ status }: TestTask): boolean {
  return status === 'working' || status === 'input_required'
}

/** The declaration counts for the request that it comes with. */
function declares({ _meta: meta }: Readonly<Record<string, unknown>>): boolean {
  const capabilities = isRecord(meta) ? meta[CAPABILITIES] : undefined
  const extensions = isRecord(capabilities) ? capabilities['extensions'] : undefined
  return isRecord(extensions) && isRecord(extensions[TASKS])
}

function undeclared(): ScriptedAnswer {
  const data = { requiredCapabilities: { extensions: { [TASKS]: {} } } }
  return { error: { code: -32021, message: 'This needs the extension for tasks', data } }
}

function textResult(text: string): Record<string, unknown> {
  return { content: [{ type: 'text', text }] }
}

function completed(text: string): TaskChange {
  return { status: 'completed', result: textResult(text) }
}

function asking(inputRequests: Readonly<Record<string, object>>): TaskChange {
  return { status: 'input_required', inputRequests }
}

function form(message: string): object {
  const requestedSchema = { type: 'object', properties: { value: { type: 'string' } } }
  return { method: 'elicitation/create', params: { mode: 'form', message, requestedSchema } }
}
