import { randomUUID } from 'node:crypto'
import { Role, TaskState } from '@a2a-js/sdk'
import type { Message, Part } from '@a2a-js/sdk'
import { AgentEvent } from '@a2a-js/sdk/server'
import type { AgentExecutor, ExecutionEventBus, RequestContext } from '@a2a-js/sdk/server'

/** Tells the weather of the place that it is told, asks for one, or waits until somebody cancels it. */
export class WeatherExecutor implements AgentExecutor {
  readonly #contexts = new Map<string, string>()
  readonly #cancellation = Promise.withResolvers<void>()

  get cancelled(): Promise<void> {
    return this.#cancellation.promise
  }

  readonly execute = async (
    { taskId, contextId, task, userMessage }: RequestContext,
    bus: ExecutionEventBus,
  ): Promise<void> => {
    this.#contexts.set(taskId, contextId)
    const words = userMessage.parts.map(({ content }) => content?.value).join('')
    const say = (state: TaskState, said?: string): void => {
      const message = said === undefined ? undefined : messageOf(said)
      const status = { state, message, timestamp: new Date().toISOString() }
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: {} }))
    }
    const write = (said: string, append: boolean): void => {
      const artifact = {
        artifactId: 'forecast',
        name: '',
        description: '',
        parts: [partOf(said)],
        metadata: {},
        extensions: [],
      }
      const chunk = { artifact, append, lastChunk: append, metadata: {} }
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, ...chunk }))
    }
    const status = { state: TaskState.TASK_STATE_SUBMITTED, message: undefined }
    bus.publish(
      AgentEvent.task({
        id: taskId,
        contextId,
        status: { ...status, timestamp: undefined },
        artifacts: [],
        history: [userMessage],
        metadata: {},
      }),
    )
    if (words === 'Ask' && task === undefined) {
      say(TaskState.TASK_STATE_INPUT_REQUIRED, 'Where?')
      return
    }
    say(TaskState.TASK_STATE_WORKING, 'Looking at the sky')
    if (words === 'Wait') {
      await this.cancelled
      return
    }
    write('It will rain ', false)
    write(`at ${words}.`, true)
    say(TaskState.TASK_STATE_COMPLETED, `It will rain at ${words}.`)
  }

  readonly cancelTask = async (taskId: string, bus: ExecutionEventBus): Promise<void> => {
    const contextId = this.#contexts.get(taskId) ?? ''
    const status = {
      state: TaskState.TASK_STATE_CANCELED,
      message: undefined,
      timestamp: new Date().toISOString(),
    }
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: {} }))
    this.#cancellation.resolve()
  }
}

function messageOf(said: string): Message {
  return {
    messageId: randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_AGENT,
    parts: [partOf(said)],
    metadata: {},
    extensions: [],
    referenceTaskIds: [],
  }
}

function partOf(value: string): Part {
  return { content: { $case: 'text', value }, filename: '', mediaType: 'text/plain', metadata: {} }
}
