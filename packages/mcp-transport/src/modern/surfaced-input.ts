import { isRecord } from '@x/internal'
import type { JsonRpcRequest } from '../json-rpc.ts'
import type { InputAnswers } from './input-required.ts'

/**
 * Key in `params._meta` by which a request tells *this transport*, and never the server, what to do with
 * inputs that the server requires: hand them up as the result instead of asking the client's handlers
 * (`{ surface: true }`), or go on with answers that were given earlier, in any process (`{ answers }`).
 */
export const INPUT_META_KEY = 'mcp-transport/input'

export interface InputInstructions {
  readonly surface?: boolean | undefined
  readonly answers?: InputAnswers | undefined
}

const NO_INSTRUCTIONS: InputInstructions = {}

/** The request without the instructions, and the instructions. */
export function takeInputInstructions(request: JsonRpcRequest): {
  readonly request: JsonRpcRequest
  readonly instructions: InputInstructions
} {
  const meta = request.params?.['_meta']
  if (!isRecord(meta) || !Object.hasOwn(meta, INPUT_META_KEY)) {
    return { request, instructions: NO_INSTRUCTIONS }
  }
  const { [INPUT_META_KEY]: given, ...rest } = meta
  const { _meta, ...params } = request.params ?? {}
  return {
    request: {
      ...request,
      params: Object.keys(rest).length === 0 ? params : { ...params, _meta: rest },
    },
    instructions: instructionsFrom(given),
  }
}

function instructionsFrom(value: unknown): InputInstructions {
  if (!isRecord(value)) return {}
  const { surface, answers } = value
  if (!isRecord(answers)) return { surface: surface === true }
  const { inputResponses, requestState } = answers
  return {
    surface: surface === true,
    answers: {
      ...(isRecord(inputResponses) ? { inputResponses } : {}),
      ...(typeof requestState === 'string' ? { requestState } : {}),
    },
  }
}
