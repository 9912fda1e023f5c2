import { setImmediate } from 'node:timers/promises'
import {
  isFinal,
  RunFailure,
  type AgentCall,
  type AgentSource,
  type AgentUpdate,
  type CheckedInput,
  type FinalUpdate,
  type RunnableAgents,
} from '../agents/agent.ts'
import { GatewayError, isOfCaller, textForCaller, type GatewayErrorCode } from '../errors.ts'
import type { AgentArtifacts, InputFile, OutputFile, RunFiles } from '../files/result-files.ts'
import { artifactNameFrom } from '../files/uri.ts'
import type { Clock } from '../internal/clock.ts'
import { beginningOf, shortened } from '../internal/text.ts'
import type { ModelUsage, RunEvent, RunFailureReason, RunNames } from '../internal/run-event.ts'
import { credentialsOf } from '../internal/user-credentials.ts'
import type { ProgressFeed } from './progress-feed.ts'
import type { Execution, RunStorage } from './order.ts'

/** For a run that is continued without its arguments. */
const NO_INPUT: CheckedInput = { kind: 'message', text: '' }
/** Bytes of text in pieces that are kept. The result says if there were more. */
const MAX_TEXT_BYTES = 10 * 1024 * 1024
/** Number of lost files that the result names. It counts the others. */
const MAX_NOTES = 20
const MAX_LINE = 1000
/** Models whose tokens are counted apart. */
const MAX_MODELS = 32
const UPDATES_PER_TURN = 1000
const CUT = 'The agent wrote a longer text than the gateway keeps: the rest of it is missing.'

/** Errors of the gateway that reach a caller through its agent. */
const REASONS: ReadonlyMap<GatewayErrorCode, RunFailureReason> = new Map([
  ['LIMIT', 'too_large'],
  ['QUOTA', 'no_room'],
  ['NO_USER', 'auth_required'],
  ['TOKEN_EXPIRED', 'auth_required'],
])

interface RunParts extends Pick<RunStorage, 'clock' | 'agents' | 'files'> {
  /** Must not throw. */
  readonly onEvent: (event: RunEvent) => void
}

/** One execution of an agent: how it is stopped, its time limit, and what the agent has sent so far. */
export class ActiveRun {
  readonly execution: Execution
  readonly names: RunNames
  readonly feed: ProgressFeed | undefined
  readonly #clock: Clock
  readonly #onEvent: RunParts['onEvent']
  readonly #agents: RunnableAgents
  readonly #controller = new AbortController()
  /** Aborts with a `RunFailure` when the agent has to stop. */
  readonly signal: AbortSignal = this.#controller.signal
  readonly #notes: string[] = []
  readonly files: RunFiles
  /** The agent was stopped, and did not end in time. */
  isAbandoned = false
  #inputFiles: readonly InputFile[] = []
  /** Text that came in pieces. */
  text = ''
  #textBytes = 0
  readonly #usage = new Map<string | undefined, ModelUsage>()
  #isTextCut = false
  #lostFiles = 0
  #isClosed = false
  #stopTimer: (() => void) | undefined
  /** Begins the time that the agent has to end. */
  #onStop: (() => void) | undefined

  constructor(
    execution: Execution,
    { clock, agents, files, onEvent }: RunParts,
    feed: ProgressFeed | undefined,
  ) {
    const { tool, order, sink, earlier } = execution
    this.execution = execution
    this.names = {
      runId: order.runId,
      tool: tool.name,
      agentId: tool.agent.id,
      skillId: tool.skill.id,
      principal: order.principal.id,
    }
    this.feed = feed
    this.files = files.open({
      runId: order.runId,
      agentId: tool.agent.id,
      caller: order,
      earlier: earlier?.files,
      signal: this.signal,
    })
    this.#clock = clock
    this.#onEvent = onEvent
    this.#agents = agents
    if (sink.signal.aborted) this.#onCallerAbort()
    else sink.signal.addEventListener('abort', this.#onCallerAbort, { once: true })
  }

  /** Tells the agent to stop. Further reasons have no effect. */
  stop(failure: RunFailure): void {
    if (this.signal.aborted) return
    this.#controller.abort(failure)
    this.#onStop?.()
  }

  begin(timeoutMs: number, inputFiles: readonly InputFile[]): void {
    this.#inputFiles = inputFiles
    this.#stopTimer = this.#clock.after(timeoutMs, () => {
      this.stop(new RunFailure('timeout', `It took longer than ${seconds(timeoutMs)}.`))
    })
  }

  /**
   * Waits for the end of the agent. When the run is stopped, the agent has `graceMs` to end; then the run ends without it,
   * and `isAbandoned` is true.
   *
   * @throws the error of `end`, or the reason why the run was stopped
   */
  untilEnd<T>(end: Promise<T>, graceMs: number): Promise<T> {
    const { signal } = this
    return new Promise((resolve, reject) => {
      let stopGrace: (() => void) | undefined
      const beginGrace = (): void => {
        stopGrace = this.#clock.after(graceMs, () => {
          this.isAbandoned = true
          reject(signal.reason)
        })
      }
      if (signal.aborted) beginGrace()
      else this.#onStop = beginGrace
      const settle = (settled: () => void): void => {
        stopGrace?.()
        this.#onStop = undefined
        // An answer after the stop comes too late: the caller has left, or got another reason.
        if (signal.aborted) reject(signal.reason)
        else settled()
      }
      end.then(
        (final) => settle(() => resolve(final)),
        (error: unknown) => settle(() => reject(error)),
      )
    })
  }

  /**
   * Runs the agent until its last update.
   *
   * @param thread conversation of the run, if it has one
   * @throws RunFailure, with the error of the agent as its cause: it may contain anything, and is for the log only
   */
  async listen(source: AgentSource, thread: string | undefined): Promise<FinalUpdate> {
    try {
      this.signal.throwIfAborted()
      const { tool, order, sink, earlier } = this.execution
      const call: AgentCall = {
        runId: order.runId,
        agentId: tool.agent.id,
        skillId: tool.skill.id,
        input: { ...(order.input ?? NO_INPUT), files: this.#inputFiles },
        context: order.context,
        principal: order.principal,
        credentials: credentialsOf(order.principal),
        thread,
        signal: this.signal,
        trace: order.trace,
        attempt: order.attempt,
        remote: sink.remote,
        artifacts: this.#artifacts,
        resume: earlier?.resume,
      }
      let count = 0
      for await (const update of this.#agents.watchedRun(source, call)) {
        count++
        // An agent that never pauses would let nothing else run: no time limit, and no cancellation.
        if (count % UPDATES_PER_TURN === 0) await setImmediate()
        // A model that is stopped with the run tells what it has used.
        if (update.type === 'text' && update.usage) this.#addUsage(update.usage)
        if (this.signal.aborted) forgetQuestion(source, call.agentId, update)
        this.signal.throwIfAborted()
        if (isFinal(update)) return update
        if (update.type === 'text') {
          if (update.text !== '') this.#addText(update.text)
        } else if (update.type === 'status') this.feed?.line(shortened(update.text, MAX_LINE))
        else await this.#keep(update.file)
      }
      throw new RunFailure('agent_failed', 'It ended without an answer.')
    } catch (error) {
      if (error instanceof RunFailure) throw error
      // An error of the gateway that the agent did not catch, such as one about its files.
      const own = gatewayErrorIn(error)
      const reason = own && REASONS.get(own.code)
      if (own && reason) throw new RunFailure(reason, `${textForCaller(own)}.`)
      throw new RunFailure('agent_failed', 'It failed; the log of the gateway says why.', {
        cause: error,
      })
    }
  }

  /** Sentences for the caller about what the result does not have. `hasText`: the agent gave the whole text at its end. */
  notes({ hasText }: { readonly hasText: boolean }): readonly string[] {
    const more = this.#lostFiles - MAX_NOTES
    if (more > 0) this.#notes.push(`${more} more files could not be kept.`)
    if (this.#isTextCut && !hasText) this.#notes.push(CUT)
    return this.#notes
  }

  /** Ends everything that the run began. Later updates and files of the agent have no effect. */
  close(): void {
    this.#isClosed = true
    this.execution.sink.signal.removeEventListener('abort', this.#onCallerAbort)
    this.#stopTimer?.()
    this.#stopTimer = undefined
    this.feed?.stop({ flush: false })
  }

  readonly #onCallerAbort = (): void => {
    const { reason } = this.execution.sink.signal
    const isFailure = reason instanceof RunFailure
    this.stop(isFailure ? reason : new RunFailure('cancelled', 'The call was cancelled.'))
  }

  /** Tokens of the models so far. `undefined`: none reported any. */
  get usage(): readonly ModelUsage[] | undefined {
    return this.#usage.size === 0 ? undefined : [...this.#usage.values()]
  }

  #addUsage({ model, inputTokens, outputTokens }: ModelUsage): void {
    // The names come from outside.
    const key = this.#usage.size < MAX_MODELS || this.#usage.has(model) ? model : undefined
    const known = this.#usage.get(key)
    this.#usage.set(key, {
      ...(key !== undefined && { model: key }),
      inputTokens: inputTokens + (known?.inputTokens ?? 0),
      outputTokens: outputTokens + (known?.outputTokens ?? 0),
    })
  }

  #addText(text: string): void {
    this.feed?.text(text)
    if (this.#isTextCut) return
    const bytes = utf8Bytes(text)
    const room = MAX_TEXT_BYTES - this.#textBytes
    this.#isTextCut = bytes > room
    this.#textBytes += bytes
    this.text += this.#isTextCut ? beginningOf(text, room, utf8Bytes) : text
  }

  /** Files for the agent. Throws GatewayError `QUOTA`, `LIMIT`, `UNAVAILABLE`, and `CLOSED` after the run. */
  readonly #artifacts: AgentArtifacts = {
    write: (file) => this.#write(file),
    read: async (name, version) => {
      this.#assertOpen()
      return this.files.read(name, version)
    },
    list: async () => {
      this.#assertOpen()
      return this.files.list()
    },
  }

  async #write(file: OutputFile): ReturnType<AgentArtifacts['write']> {
    this.#assertOpen()
    const written = await this.files.write(file)
    await this.execution.sink.keepFiles?.(() => this.files.soFar())
    const { version } = written
    const name = shortened(artifactNameFrom(file.name), MAX_LINE)
    this.feed?.line(version > 1 ? `File: ${name} (version ${version})` : `File: ${name}`)
    return written
  }

  /** Stores a file of an update. The run continues without a file that cannot be stored. */
  async #keep(file: OutputFile): Promise<void> {
    try {
      await this.#write(file)
    } catch (error) {
      if (!GatewayError.is(error)) throw error
      if (!isOfCaller(error)) this.#onEvent({ type: 'file-lost', ...this.names, error })
      if (this.#lostFiles++ >= MAX_NOTES) return
      const name = shortened(artifactNameFrom(file.name), MAX_LINE)
      this.#notes.push(`The file "${name}" could not be kept: ${textForCaller(error)}`)
    }
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new GatewayError('CLOSED', 'The run has ended, and its files with it')
  }
}

/** Errors between the error of an agent and its first cause. */
const MAX_CAUSES = 8

/** Returns the error of the gateway that an agent passed on, perhaps as the cause of its own: clients of servers do that. */
function gatewayErrorIn(error: unknown): GatewayError | undefined {
  let at = error
  for (let depth = 0; depth < MAX_CAUSES && at instanceof Error; depth++) {
    if (GatewayError.is(at)) return at
    at = at.cause
  }
  return undefined
}

/** Tells an agent that its question will not be answered. Nothing waits for the agent, which may hang. */
export function forgetQuestion(source: AgentSource, agentId: string, update: AgentUpdate): void {
  if (update.type !== 'asked' && update.type !== 'authorization') return
  const { state } = update
  if (state !== undefined) forgetState(source, agentId, state)
}

/** Tells an agent that it can delete the state of a paused run. Nothing waits for the agent, which may hang. */
export function forgetState(
  source: AgentSource | undefined,
  agentId: string,
  state: unknown,
): void {
  const forgetting = async (): Promise<void> => source?.forget?.(agentId, state)
  forgetting().catch(() => {}) // a source reports its own failures
}

function utf8Bytes(text: string): number {
  return Buffer.byteLength(text)
}

function seconds(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${ms / 1000} s`
}
