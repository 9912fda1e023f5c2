import { ProtocolError, ProtocolErrorCode, type Result } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import { GatewayError } from '../errors.ts'
import { taskOwnerOf, type TaskReference } from '../tasks/tasks.ts'
import type { HandlerParts } from './handlers.ts'
import { invalidParams, methodNotFound, type Params } from './json-rpc.ts'
import { continuedCall } from './pair-calls.ts'
import type { RequestContext } from './request-context.ts'
import { isModern } from './revisions.ts'
import { assertDeclared, clientOf } from './tool-call.ts'

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
      const caller = { principal: context.principal, client: clientOf(context) }
      return tasks.update(reference, inputResponses, (call) => continuedCall(parts, call, caller))
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
