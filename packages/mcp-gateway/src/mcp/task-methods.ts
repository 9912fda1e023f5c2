import { ProtocolError, ProtocolErrorCode, type Result } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { GatewayError } from '../errors.ts'
import { mayUse } from '../internal/principal.ts'
import { roundAnswers, type Task } from '../tasks/task.ts'
import type { RunOrder } from '../runs/order.ts'
import type { PreparedTask } from '../tasks/task-executions.ts'
import { taskOwnerOf, type TaskReference } from '../tasks/task-records.ts'
import type { HandlerParts } from './handlers.ts'
import { invalidParams, methodNotFound, type Params } from './json-rpc.ts'
import type { RequestContext } from './request-context.ts'
import { isModern } from './revisions.ts'
import { assertDeclared, clientOf, executeOrder } from './tool-call.ts'

type TaskMethod = (params: Params, context: RequestContext) => Promise<Result>

/** `tasks/get`, `tasks/update` and `tasks/cancel` (SEP-2663). */
export function taskMethods(parts: HandlerParts): Readonly<Record<string, TaskMethod>> {
  const { tasks } = parts
  const methods: Readonly<
    Record<string, (reference: TaskReference, params: Params, context: RequestContext) => unknown>
  > = {
    'tasks/get': (reference) => tasks.get(reference),
    'tasks/update': (reference, { inputResponses }, context) => {
      if (!isRecord(inputResponses) || !Object.values(inputResponses).every(isRecord)) {
        throw invalidParams('"inputResponses" must be an object of answers, which are objects too')
      }
      return tasks.update(reference, inputResponses, (task) => {
        const tool = parts.registry.plan().byName(task.tool)
        if (!tool || !mayUse(context.principal, tool)) throw agentGone(task.tool)
        const { principal } = context
        return prepareTask(parts, task, { principal, client: clientOf(context) })
      })
    },
    'tasks/cancel': (reference) => tasks.cancel(reference),
  }
  return Object.fromEntries(
    Object.entries(methods).map(([name, method]) => {
      const checked: TaskMethod = async (params, context) => {
        const { caller, client } = context
        // Earlier revisions have methods of the same names, with other meanings.
        if (!isModern(client.protocolVersion)) throw methodNotFound()
        assertDeclared(client)
        const { taskId } = params
        if (typeof taskId !== 'string') throw invalidParams('"taskId" must be text')
        const reference = { owner: taskOwnerOf(caller), taskId }
        try {
          const result = await method(reference, params, context)
          return { resultType: 'complete', ...(isRecord(result) && result) }
        } catch (cause) {
          if (!GatewayError.is(cause)) throw cause
          parts.onError(new Error('A task could not be reached', { cause }))
          const text = 'Tasks cannot be reached now. The task continues. Try again in a moment.'
          throw new ProtocolError(ProtocolErrorCode.InternalError, text, { retryAfterMs: 1000 })
        }
      }
      return [name, checked]
    }),
  )
}

/** Returns what executes a stored task. @throws ProtocolError if its agent is gone */
export function prepareTask(
  parts: HandlerParts,
  task: Task,
  over: Partial<RunOrder> = {},
): PreparedTask {
  const tool = parts.registry.plan().byName(task.tool)
  if (!tool || !task.order) throw notHere(task.tool)
  const { round } = task
  const stored = { ...task.order, ...over }
  const resume = round > 0 ? { state: task.state, responses: roundAnswers(task) } : stored.resume
  const { attempt, idempotencyKey } = stored
  // The key of a task of an engine is claimed before the task is queued.
  const key = attempt === undefined ? idempotencyKey : undefined
  const order = { ...stored, resume, idempotencyKey: key }
  let isRefused = false
  return {
    execute: (sink) => {
      isRefused = false
      const onRefused = (): void => {
        isRefused = true
      }
      return executeOrder(parts, { tool, order, sink, onRefused })
    },
    maxRunMs: parts.runs.maxRunMs(tool),
    canContinue: parts.runs.canContinue(tool, order),
    forget: (remote) => {
      parts.runs.forget(tool, order, remote)
      // An earlier round or process may have reached the agent.
      if (!isRefused || round > 0 || attempt !== 1) return
      parts.runs.idempotent.release({ tool, order: stored }).catch((cause: unknown) => {
        parts.onError(new Error('A call that was refused cannot be made again now', { cause }))
      })
    },
  }
}

function agentGone(tool: string): ProtocolError {
  const text = `The answers are not taken: the agent behind ${tool} is gone now. Send them again later.`
  return new ProtocolError(ProtocolErrorCode.InternalError, text, { reason: 'agent_gone' })
}

function notHere(tool: string): ProtocolError {
  const text = `The process that took this task does not have the agent behind ${tool}. An earlier process may have executed a part of the call: check that before you call again.`
  return new ProtocolError(ProtocolErrorCode.InternalError, text, { reason: 'agent_gone' })
}
