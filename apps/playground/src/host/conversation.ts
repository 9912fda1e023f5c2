import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import type { ElicitationAnswer } from '@x/langchain-mcp'
import { CommandError } from '@x/internal/command-line'
import type { RunReference, ToAgent } from '../agent/agent-messages.ts'
import type { Answer } from '../timeline/commands.ts'
import type { Happening, Question, RunState, ToolResult } from '../timeline/events.ts'
import type { EventLog } from './event-log.ts'

/** The conversation that all pages share. It has one run at a time, which outlives the agent process. */
export class Conversation {
  readonly #log: EventLog
  readonly #send: (message: ToAgent) => void
  #threadId: string = randomUUID()
  #file: string | undefined
  /** Answers to questions of the run that waits, until all of them are there. */
  #answers: Record<string, ElicitationAnswer> = {}

  /** `send` passes a message to the agent process. */
  constructor(log: EventLog, send: (message: ToAgent) => void) {
    this.#log = log
    this.#send = send
  }

  /** Goes on with the conversation that is stored in a file, if there is one, and stores this one there. */
  open(file: string): void {
    this.#file = file
    try {
      const { threadId, answers, items, run } = JSON.parse(readFileSync(file, 'utf8'))
      this.#threadId = threadId
      this.#answers = answers
      this.#log.append({ type: 'conversation', items, run })
    } catch {
      this.#store() // there is none, or it is damaged
    }
  }

  #store(): void {
    if (this.#file === undefined) return
    const { conversation: items, run } = this.#log.state
    const stored = { threadId: this.#threadId, answers: this.#answers, items, run }
    writeFileSync(this.#file, JSON.stringify(stored), { mode: 0o600 })
  }

  /** Starts a run. Resolves when it has ended, or waits for an answer. */
  async say(text: string): Promise<void> {
    if (text.trim() === '') throw new CommandError('Say something first.')
    this.refuseWhileRunning()
    const agent = this.#log.state.processes['agent']
    if (agent?.state !== 'running') {
      throw new CommandError(
        `The agent process does not run. ${agent?.problem ?? 'Wait until it has started.'}`,
      )
    }
    const id = randomUUID()
    this.#log.append({ type: 'item', item: { type: 'message', id, from: 'user', text } })
    this.#setRun({ id, state: 'running' })
    this.#send({ type: 'say', text, ...this.#reference(id) })
    await this.#untilIdle()
  }

  /** Answers a question. The run continues when all of its questions are answered. */
  async answer({ questionId, action, content }: Answer): Promise<void> {
    const { run } = this.#log.state
    const question = this.#openQuestions().find(({ id }) => id === questionId)
    if (question === undefined || run === undefined) {
      throw new CommandError('This question is closed: it was answered, or its run has ended.')
    }
    if (run.state !== 'waiting') {
      throw new CommandError('The agent process starts again: answer in a moment.')
    }
    this.#answers[questionId] = { action, ...(content && { content }) }
    this.#log.append({ type: 'item', item: { ...question, action } })
    if (this.#openQuestions().length > 0) return this.#store()
    this.#setRun({ id: run.id, state: 'running' })
    this.#send({ type: 'answer', answers: this.#answers, ...this.#reference(run.id) })
    this.#answers = {}
    await this.#untilIdle()
  }

  async stopRun(): Promise<void> {
    const { run } = this.#log.state
    if (run?.state !== 'running' && run?.state !== 'waiting') {
      throw new CommandError('Nothing runs that could be stopped.')
    }
    this.#send({ type: 'stop-run' })
    // A process that starts does not know the run yet.
    const isStarting = this.#log.state.processes['agent']?.state !== 'running'
    if (run.state === 'waiting' || isStarting)
      this.#end({ id: run.id, state: 'done', problem: 'You stopped this run.' })
    await this.#untilIdle()
  }

  startAnew(): void {
    this.refuseWhileRunning()
    this.#threadId = randomUUID()
    this.#log.append({ type: 'conversation', items: [] })
    this.#store()
  }

  refuseWhileRunning(): void {
    const { run } = this.#log.state
    if (run?.state === 'running') {
      throw new CommandError('The agent is still working: wait for it, or stop the run.')
    }
    if (run?.state === 'waiting') {
      throw new CommandError('A server waits for an answer: answer its question, or stop the run.')
    }
  }

  /** Starts an agent process by `start`. It continues the run that another one has left, from its last checkpoint. */
  async continueAfter(start: () => Promise<void>): Promise<void> {
    const run = this.#openRun
    if (run !== undefined) this.#setRun({ id: run.id, state: 'running' }) // closed for answers
    await start()
    if (run === undefined || this.#openRun === undefined) return // none, or stopped meanwhile
    if (this.#log.state.processes['agent']?.state !== 'running') {
      this.lose('No new agent process could be started to continue the run.')
      return
    }
    this.#send({ type: 'continue', ...this.#reference(run.id) })
    if (run.state === 'waiting') await this.#untilIdle()
  }

  /** The run is over, because no process continues it. */
  lose(problem: string): void {
    const run = this.#openRun
    if (run !== undefined) this.#end({ id: run.id, state: 'lost', problem })
  }

  /** Takes in what the agent process reports. */
  add(happening: Happening): void {
    if (happening.type === 'run') this.#addRun(happening.run)
    else this.#log.append(happening)
  }

  /** Resolves when the run has ended, or waits for an answer. */
  async #untilIdle(): Promise<void> {
    return this.#log.until(({ run }) => run?.state !== 'running')
  }

  #addRun(run: RunState): void {
    if (run.id !== this.#openRun?.id) return // it was stopped, or is lost
    if (run.state === 'running' || run.state === 'waiting') this.#setRun(run)
    else this.#end(run)
  }

  #end(run: RunState): void {
    for (const question of this.#openQuestions()) {
      this.#log.append({ type: 'item', item: { ...question, action: 'cancel' } })
    }
    for (const call of this.#log.state.conversation) {
      if (call.type !== 'tool-call' || call.result !== undefined) continue
      this.#log.append({ type: 'tool-call-changed', id: call.id, change: { result: NO_RESULT } })
    }
    this.#answers = {}
    this.#setRun(run)
  }

  #setRun(run: RunState): void {
    const { run: known } = this.#log.state
    const isNew = run.id !== known?.id || run.state !== known.state
    if (!isNew) return
    this.#log.append({ type: 'run', run })
    this.#store()
  }

  /** The run that the agent process works on, or that waits for an answer. */
  get #openRun(): RunState | undefined {
    const { run } = this.#log.state
    return run?.state === 'running' || run?.state === 'waiting' ? run : undefined
  }

  #reference(runId: string): RunReference {
    return { runId, threadId: this.#threadId }
  }

  #openQuestions(): Question[] {
    const questions = this.#log.state.conversation.filter((item) => item.type === 'question')
    return questions.filter(({ action }) => action === undefined)
  }
}

const NO_RESULT: ToolResult = {
  isError: true,
  content: [
    {
      type: 'text',
      text: 'The run ended before the result came. The call may have been executed.',
    },
  ],
}
