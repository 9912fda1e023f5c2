import { AIMessage, AIMessageChunk, HumanMessage, ToolMessage } from '@langchain/core/messages'
import type { BaseMessage } from '@langchain/core/messages'
import type { RunnableConfig } from '@langchain/core/runnables'
import { Command } from '@langchain/langgraph'
import type { Interrupt } from '@langchain/langgraph'
import { ElicitRequestFormParamsSchema } from '@modelcontextprotocol/sdk/types.js'
import { isRecord } from '@x/internal'
import { CommandError, toLine } from '@x/internal/command-line'
import { elicitationResume, isElicitationInterrupt } from '@x/langchain-mcp'
import type { ElicitationAnswer, McpElicitationInterrupt, McpProgressEvent } from '@x/langchain-mcp'
import type { Happening, Question, RunState } from '../timeline/events.ts'
import type { RunReference } from './agent-messages.ts'
import { openTeam } from './graph.ts'
import type { Team, TeamOptions } from './graph.ts'
import { toToolResult } from './tool-result.ts'

/** Steps of all agents together in one run. */
const MAX_STEPS = 50

/** Input of the graph; `null` continues at the last checkpoint. */
type Input = { readonly messages: BaseMessage[] } | Command | null

/** The last checkpoint of a conversation. */
interface Checkpoint {
  readonly messages: readonly BaseMessage[]
  /** Questions of servers that interrupt the run. */
  readonly asked: readonly Interrupt<McpElicitationInterrupt>[]
}

/** Runs the team, one run at a time, and emits what happens. */
export class TeamRunner implements AsyncDisposable {
  readonly #options: TeamOptions
  readonly #emit: (happening: Happening) => void
  /** Open from the start of a run to its end, also while the run waits for an answer. */
  #team: Team | undefined
  #stopping: AbortController | undefined

  constructor(options: TeamOptions, emit: (happening: Happening) => void) {
    this.#options = options
    this.#emit = emit
  }

  /** Starts a run with what the user says. Resolves when it has ended, or waits for answers. */
  say(run: RunReference, text: string): Promise<void> {
    return this.#run(run, ({ messages }) => {
      const said = new HumanMessage({ id: run.runId, content: text })
      return { messages: [...resultsOfOpenCalls(messages), said] }
    })
  }

  /** Resumes a run that waits. `answers` has the ids of the questions as keys. */
  answer(run: RunReference, answers: Readonly<Record<string, ElicitationAnswer>>): Promise<void> {
    return this.#run(run, ({ asked }) => {
      const resumes = asked.map((interrupt) => {
        const responses = questionsOf(interrupt).map(({ name, question }) => [
          name,
          answers[question.id] ?? { action: 'cancel' },
        ])
        return elicitationResume(interrupt, Object.fromEntries(responses))
      })
      return new Command({ resume: Object.assign({}, ...resumes) })
    })
  }

  /** Continues a run that another process has left, from its last checkpoint. */
  continue(run: RunReference): Promise<void> {
    return this.#run(run, ({ messages, asked }) => {
      if (!messages.some(({ id }) => id === run.runId)) {
        throw new CommandError('The process ended before the first checkpoint: say it again.')
      }
      return asked.length > 0 ? undefined : null
    })
  }

  /** Stops the run that is under way, or that waits. */
  async stop(): Promise<void> {
    this.#stopping?.abort()
    if (this.#stopping === undefined) await this.#closeTeam()
  }

  /** Calls one tool many times at once. */
  async callInParallel(count: number): Promise<void> {
    await using team = await openTeam(this.#options)
    const tool = team.tools.find(({ name }) => name === 'basket_show')
    if (tool === undefined) throw new TypeError('agent.json does not name the tool basket_show')
    const startedAt = performance.now()
    const calls = Array.from({ length: count }, (_, index) => {
      return { type: 'tool_call', id: `parallel-${index}`, name: tool.name, args: {} } as const
    })
    const results: unknown[] = await tool.batch(calls, {}, { returnExceptions: true })
    const ms = Math.round(performance.now() - startedAt)
    const answered = results.filter(
      (result) => ToolMessage.isInstance(result) && result.status !== 'error',
    ).length
    this.#emit({
      type: 'notice',
      level: answered === count ? 'info' : 'problem',
      text: `${count} calls of ${tool.name} at once: ${answered} answered, ${count - answered} failed, in ${ms} ms.`,
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping?.abort()
    await this.#closeTeam()
  }

  /** `toInput` returns `undefined` for a run that goes on waiting. */
  async #run(
    run: RunReference,
    toInput: (checkpoint: Checkpoint) => Input | undefined,
  ): Promise<void> {
    const emitRun = (state: RunState['state'], problem?: string): void =>
      this.#emit({ type: 'run', run: { id: run.runId, state, problem } })
    const { signal } = (this.#stopping = new AbortController())
    const config = { configurable: { thread_id: run.threadId }, signal }
    emitRun('running')
    try {
      const team = (this.#team ??= await openTeam(this.#options))
      const input = toInput(await lastCheckpoint(team, config))
      if (input !== undefined) await this.#stream(team, input, config)
      const { asked } = await lastCheckpoint(team, config)
      for (const { question } of asked.flatMap(questionsOf)) {
        this.#emit({ type: 'item', item: question })
      }
      if (asked.length === 0) await this.#closeTeam()
      emitRun(asked.length === 0 ? 'done' : 'waiting')
    } catch (error) {
      await this.#closeTeam().catch(() => undefined) // the run has failed already
      if (signal.aborted) emitRun('done', 'You stopped this run.')
      else emitRun('failed', problemOf(error))
    } finally {
      this.#stopping = undefined
    }
  }

  async #stream(team: Team, input: Input, config: RunnableConfig): Promise<void> {
    const stream = await team.supervisor.graph.stream(input, {
      ...config,
      streamMode: ['messages', 'updates', 'custom'],
      subgraphs: true,
      durability: 'sync', // a checkpoint is stored before the next step starts
      recursionLimit: MAX_STEPS,
    })
    const seen = new Set<string>()
    for await (const [, mode, data] of stream) {
      if (mode === 'messages') this.#emitToken(data, seen)
      else if (mode === 'updates') Object.values(data).forEach((update) => this.#emitUpdate(update))
      else if (isProgress(data)) this.#emitProgress(data)
    }
  }

  #emitToken([message, metadata]: [BaseMessage, Record<string, unknown>], seen: Set<string>): void {
    const { id, text } = message
    if (!AIMessageChunk.isInstance(message) || id === undefined || text === '') return
    if (!seen.has(id)) {
      seen.add(id)
      const agent = String(metadata['lc_agent_name'])
      const item = { type: 'message', id, from: 'agent', agent, text: '' } as const
      this.#emit({ type: 'item', item })
    }
    this.#emit({ type: 'text', id, text })
  }

  /** Emits the tool calls and results that a node has added to the conversation. */
  #emitUpdate({ messages = [] }: { readonly messages?: readonly BaseMessage[] }): void {
    for (const message of messages) {
      if (AIMessage.isInstance(message)) {
        const agent = message.name ?? 'supervisor'
        for (const { id = '', name, args } of message.tool_calls ?? []) {
          this.#emit({ type: 'item', item: { type: 'tool-call', id, agent, name, args } })
        }
      } else if (ToolMessage.isInstance(message)) {
        const change = { result: toToolResult(message) }
        this.#emit({ type: 'tool-call-changed', id: message.tool_call_id, change })
      }
    }
  }

  #emitProgress({ toolCallId: id = '', progress, total, message }: McpProgressEvent): void {
    const count = total === undefined ? `${progress}` : `${progress} of ${total}`
    const text = message === undefined ? count : `${count}: ${message}`
    this.#emit({ type: 'tool-call-changed', id, change: { progress: text } })
  }

  async #closeTeam(): Promise<void> {
    const team = this.#team
    this.#team = undefined
    await team?.[Symbol.asyncDispose]()
  }
}

async function lastCheckpoint({ supervisor }: Team, config: RunnableConfig): Promise<Checkpoint> {
  const { values, tasks } = await supervisor.graph.getState(config)
  const interrupts: Interrupt[] = tasks.flatMap((task) => task.interrupts)
  return { messages: values.messages ?? [], asked: interrupts.filter(isAsked) }
}

function isAsked(interrupt: Interrupt): interrupt is Interrupt<McpElicitationInterrupt> {
  return isElicitationInterrupt(interrupt.value)
}

function isProgress(data: unknown): data is McpProgressEvent {
  return isRecord(data) && data['type'] === 'mcp_progress'
}

/** Returns the questions of an interrupt, each with its name in there. */
function questionsOf({ value }: Interrupt<McpElicitationInterrupt>): {
  readonly name: string
  readonly question: Question
}[] {
  if (value === undefined) return []
  const { key, server, inputRequests, problem } = value
  return Object.entries(inputRequests).map(([name, { params = {} }]) => {
    const { message, mode, url } = params
    const form = ElicitRequestFormParamsSchema.safeParse(params)
    const question: Question = {
      type: 'question',
      id: `${key}/${name}`,
      server,
      message: [problem, message].filter((part) => typeof part === 'string').join('\n'),
      mode: mode === 'url' ? 'url' : 'form',
      schema: form.data?.requestedSchema,
      url: typeof url === 'string' ? url : undefined,
    }
    return { name, question }
  })
}

/** Results of calls that a stopped run has left open: models refuse a conversation with open calls. */
function resultsOfOpenCalls(messages: readonly BaseMessage[]): ToolMessage[] {
  const last = messages.at(-1)
  const calls = (AIMessage.isInstance(last) && last.tool_calls) || []
  return calls.map(({ id = '', name }) => {
    const content = 'The run was stopped before the result came. The call may have been executed.'
    return new ToolMessage({ tool_call_id: id, name, status: 'error', content })
  })
}

/** One or two sentences for the person: what failed, and what to do. */
function problemOf(error: unknown): string {
  const line = toLine(error)
  const { status, lc_error_code: code } = isRecord(error) ? error : {}
  if (error instanceof CommandError) return line
  if (status === 401 || status === 403) {
    return `The model refused the API key (status ${status}): check OPENAI_API_KEY or ANTHROPIC_API_KEY, and start the playground again.`
  }
  if (line === 'Connection error.') {
    return 'The service of the model cannot be reached: check the network, and OPENAI_BASE_URL if you set it.'
  }
  if (code === 'GRAPH_RECURSION_LIMIT') {
    return `The agents made more than ${MAX_STEPS} steps. Ask for less at once.`
  }
  return `The run failed: ${line.length > 300 ? `${line.slice(0, 300)}…` : line}`
}
