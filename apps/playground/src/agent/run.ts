import { AIMessage, AIMessageChunk, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { Command } from '@langchain/langgraph'
import type { Interrupt } from '@langchain/langgraph'
import { ElicitRequestFormParamsSchema } from '@modelcontextprotocol/sdk/types.js'
import { isRecord } from '@x/internal'
import { elicitationResume, isElicitationInterrupt } from '@x/langchain-mcp'
import type { ElicitationAnswer, McpElicitationInterrupt } from '@x/langchain-mcp'
import { lineFrom } from '../user-error.ts'
import type { Happening, Question, RunState } from '../timeline/events.ts'
import type { RunReference } from './agent-messages.ts'
import { openTeam } from './graph.ts'
import type { Team, TeamOptions } from './graph.ts'
import { toToolResult } from './tool-result.ts'

/** Steps of all agents together in one run. */
const MAX_STEPS = 50

type Emit = (happening: Happening) => void
/** A question of a server in an interrupted graph. */
type Asked = Interrupt<McpElicitationInterrupt>

/** Runs the team, one run at a time, and emits what happens. */
export class TeamRunner implements AsyncDisposable {
  readonly #options: TeamOptions
  readonly #emit: Emit
  /** Open from the start of a run to its end, also while the run waits for an answer. */
  #team: Team | undefined
  #stopping: AbortController | undefined

  constructor(options: TeamOptions, emit: Emit) {
    this.#options = options
    this.#emit = emit
  }

  /** Starts a run with what the user says. Resolves when it has ended, or waits for answers. */
  async say(run: RunReference, text: string): Promise<void> {
    await this.#run(run, async (team) => {
      await answerOpenCalls(team, run)
      return { messages: [new HumanMessage({ id: run.runId, content: text })] }
    })
  }

  /** Resumes a run that waits. `answers` has the ids of the questions as keys. */
  async answer(
    run: RunReference,
    answers: Readonly<Record<string, ElicitationAnswer>>,
  ): Promise<void> {
    await this.#run(run, async (team) => {
      const asked = await askedIn(team, run)
      const resumes = asked.map((interrupt) => {
        const responses = questionsOf(interrupt).map(({ name, id }) => [
          name,
          answers[id] ?? { action: 'cancel' },
        ])
        return elicitationResume(interrupt, Object.fromEntries(responses))
      })
      return new Command({ resume: Object.assign({}, ...resumes) })
    })
  }

  /** Continues a run that another process has left, from its last checkpoint. */
  async continue(run: RunReference): Promise<void> {
    await this.#run(run, async (team) => {
      const { values, next } = await team.supervisor.graph.getState(configOf(run))
      const messages: unknown[] =
        isRecord(values) && Array.isArray(values['messages']) ? values['messages'] : []
      if (
        !messages.some((message) => HumanMessage.isInstance(message) && message.id === run.runId)
      ) {
        return 'lost'
      }
      if ((await askedIn(team, run)).length > 0) return 'waiting'
      return next.length === 0 ? 'done' : null
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
    const results = await Promise.allSettled(
      Array.from({ length: count }, async (_, index) =>
        tool.invoke({ type: 'tool_call', id: `parallel-${index}`, name: tool.name, args: {} }),
      ),
    )
    const ms = Math.round(performance.now() - startedAt)
    const failed = results.filter(
      (result) => result.status === 'rejected' || isFailure(result.value),
    )
    this.#emit({
      type: 'notice',
      level: failed.length === 0 ? 'info' : 'problem',
      text: `${count} calls of ${tool.name} at once: ${count - failed.length} answered, ${failed.length} failed, in ${ms} ms.`,
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping?.abort()
    await this.#closeTeam()
  }

  async #run(run: RunReference, start: (team: Team) => Promise<Start>): Promise<void> {
    const emitRun = (state: RunState['state'], problem?: string): void =>
      this.#emit({ type: 'run', run: { id: run.runId, state, problem } })
    const stopping = new AbortController()
    this.#stopping = stopping
    emitRun('running')
    try {
      this.#team ??= await openTeam(this.#options)
      const input = await start(this.#team)
      if (input === 'lost') {
        await this.#closeTeam()
        emitRun('lost', 'The process ended before the first checkpoint: say it again.')
        return
      }
      if (input !== 'waiting' && input !== 'done') {
        await this.#stream(this.#team, run, { input, signal: stopping.signal })
      }
      const questions = (await askedIn(this.#team, run)).flatMap(questionsOf)
      if (questions.length === 0) {
        await this.#closeTeam()
        emitRun('done')
        return
      }
      for (const { question } of questions) this.#emit({ type: 'question', question })
      emitRun('waiting')
    } catch (error) {
      await this.#closeTeam().catch(() => undefined) // the run has failed already
      if (stopping.signal.aborted) emitRun('done', 'You stopped this run.')
      else emitRun('failed', problemOf(error))
    } finally {
      this.#stopping = undefined
    }
  }

  async #stream(
    team: Team,
    run: RunReference,
    { input, signal }: { readonly input: Exclude<Start, string>; readonly signal: AbortSignal },
  ): Promise<void> {
    const stream = await team.supervisor.graph.stream(input, {
      ...configOf(run),
      streamMode: ['messages', 'updates', 'custom'],
      subgraphs: true,
      durability: 'sync', // a checkpoint is stored before the next step starts
      recursionLimit: MAX_STEPS,
      signal,
    })
    const seen = new Set<string>()
    for await (const [, mode, data] of stream as AsyncIterable<[string[], string, unknown]>) {
      if (mode === 'messages' && Array.isArray(data)) this.#emitToken(data, seen)
      else if (mode === 'updates') this.#emitUpdate(data)
      else if (isRecord(data) && data['type'] === 'mcp_progress') this.#emitProgress(data)
    }
  }

  #emitToken([message, metadata]: unknown[], seen: Set<string>): void {
    if (!AIMessageChunk.isInstance(message)) return
    const { id, text } = message
    if (id === undefined || text === '') return
    if (!seen.has(id)) {
      seen.add(id)
      const name = isRecord(metadata) ? metadata['agent'] : undefined
      const agent = typeof name === 'string' ? name : 'supervisor'
      this.#emit({ type: 'message', message: { id, from: 'agent', agent, text: '' } })
    }
    this.#emit({ type: 'text', messageId: id, text })
  }

  #emitUpdate(data: unknown): void {
    for (const update of isRecord(data) ? Object.values(data) : []) {
      const messages = isRecord(update) ? update['messages'] : undefined
      for (const message of Array.isArray(messages) ? messages : []) {
        if (AIMessage.isInstance(message)) {
          for (const { id, name, args } of message.tool_calls ?? []) {
            if (id === undefined) continue
            const agent = message.name ?? 'supervisor'
            this.#emit({ type: 'tool-call', call: { id, agent, name, args } })
          }
        } else if (ToolMessage.isInstance(message)) {
          const { tool_call_id: callId } = message
          this.#emit({ type: 'tool-result', callId, result: toToolResult(message) })
        }
      }
    }
  }

  #emitProgress({
    toolCallId: callId,
    progress,
    total,
    message,
  }: Readonly<Record<string, unknown>>): void {
    if (typeof callId !== 'string') return
    const ofTotal = typeof total === 'number' ? ` of ${total}` : ''
    const count = `${String(progress)}${ofTotal}`
    const text = typeof message === 'string' ? `${count}: ${message}` : count
    this.#emit({ type: 'tool-progress', callId, text })
  }

  async #closeTeam(): Promise<void> {
    const team = this.#team
    this.#team = undefined
    await team?.[Symbol.asyncDispose]()
  }
}

/** Input of the graph; `null` continues at the last checkpoint. */
type Start = { readonly messages: HumanMessage[] } | Command | null | 'lost' | 'waiting' | 'done'

function configOf({ threadId }: RunReference): {
  readonly configurable: { readonly thread_id: string }
} {
  return { configurable: { thread_id: threadId } }
}

async function askedIn(team: Team, run: RunReference): Promise<Asked[]> {
  const { tasks } = await team.supervisor.graph.getState(configOf(run))
  return tasks.flatMap(({ interrupts }) => interrupts).filter(isAsked)
}

function isAsked(interrupt: Interrupt): interrupt is Asked {
  return isElicitationInterrupt(interrupt.value)
}

function questionsOf({ value }: Asked): { name: string; id: string; question: Question }[] {
  if (value === undefined) return []
  const { key, server, inputRequests, problem } = value
  return Object.entries(inputRequests).map(([name, { params = {} }]) => {
    const id = `${key}/${name}`
    const { message, mode, url } = params
    const form = ElicitRequestFormParamsSchema.safeParse(params)
    const question: Question = {
      id,
      server,
      message: [problem, message].filter((part) => typeof part === 'string').join('\n'),
      mode: mode === 'url' ? 'url' : 'form',
      schema: form.data?.requestedSchema,
      url: typeof url === 'string' ? url : undefined,
    }
    return { name, id, question }
  })
}

/** Gives a result to calls that a stopped run has left open, because models refuse a conversation with open calls. */
async function answerOpenCalls(team: Team, run: RunReference): Promise<void> {
  const { values } = await team.supervisor.graph.getState(configOf(run))
  const messages: unknown[] =
    isRecord(values) && Array.isArray(values['messages']) ? values['messages'] : []
  const last = messages.findLast((message) => AIMessage.isInstance(message))
  const answered = new Set(
    messages.flatMap((message) => (ToolMessage.isInstance(message) ? [message.tool_call_id] : [])),
  )
  const open = (last?.tool_calls ?? []).filter(({ id }) => id !== undefined && !answered.has(id))
  if (open.length === 0) return
  const results = open.map(
    ({ id = '', name }) =>
      new ToolMessage({
        tool_call_id: id,
        name,
        status: 'error',
        content: 'The run was stopped before the result came. The call may have been executed.',
      }),
  )
  await team.supervisor.graph.updateState(configOf(run), { messages: results }, 'tools')
}

function isFailure(message: unknown): boolean {
  return ToolMessage.isInstance(message) && message.status === 'error'
}

/** One or two sentences for the person: what failed, and what to do. */
function problemOf(error: unknown): string {
  const line = lineFrom(error)
  const status = isRecord(error) ? error['status'] : undefined
  if (status === 401 || status === 403) {
    return `The model refused the API key (status ${status}): check OPENAI_API_KEY or ANTHROPIC_API_KEY, and start the playground again.`
  }
  if (line === 'Connection error.') {
    return 'The service of the model cannot be reached: check the network, and OPENAI_BASE_URL if you set it.'
  }
  if (isRecord(error) && error['lc_error_code'] === 'GRAPH_RECURSION_LIMIT') {
    return `The agents made more than ${MAX_STEPS} steps. Ask for less at once.`
  }
  return `The run failed: ${line.length > 300 ? `${line.slice(0, 300)}…` : line}`
}
