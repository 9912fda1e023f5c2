// The packages of LangGraph, which only gateways with graphs need. A bundler accepts that a package is not installed if its
// import is in `try`, and leaves out the rest of it if the import is destructured.
import type { toJsonSchema } from '@langchain/core/utils/json_schema'
import type { isInteropZodSchema } from '@langchain/core/utils/types'
import type { Command } from '@langchain/langgraph'
import type { schemaMetaRegistry } from '@langchain/langgraph/zod'
import type { getInputTypeSchema } from '@langchain/langgraph/zod/schema'

import { GatewayError } from '../../errors.ts'

/** @throws GatewayError `CONFIG` if the package is not installed */
export async function loadCommand(): Promise<typeof Command> {
  try {
    const { Command: loaded } = await import('@langchain/langgraph')
    return loaded
  } catch (cause) {
    throw missing(cause)
  }
}

/** Functions that read the schema of a graph. */
interface SchemaTools {
  readonly getInputTypeSchema: typeof getInputTypeSchema
  readonly schemaMetaRegistry: typeof schemaMetaRegistry
  readonly toJsonSchema: typeof toJsonSchema
  readonly isInteropZodSchema: typeof isInteropZodSchema
}

/** @throws GatewayError `CONFIG` if the packages are not installed */
export async function loadSchemaTools(): Promise<SchemaTools> {
  try {
    const { getInputTypeSchema: inputTypeSchemaOf } =
      await import('@langchain/langgraph/zod/schema')
    const { schemaMetaRegistry: registry } = await import('@langchain/langgraph/zod')
    const { toJsonSchema: jsonSchemaOf } = await import('@langchain/core/utils/json_schema')
    const { isInteropZodSchema: isZodSchema } = await import('@langchain/core/utils/types')
    return {
      getInputTypeSchema: inputTypeSchemaOf,
      schemaMetaRegistry: registry,
      toJsonSchema: jsonSchemaOf,
      isInteropZodSchema: isZodSchema,
    }
  } catch (cause) {
    throw missing(cause)
  }
}

function missing(cause: unknown): GatewayError {
  const message =
    'A graph needs packages that cannot be loaded: npm install @langchain/core @langchain/langgraph'
  return new GatewayError('CONFIG', message, { cause })
}
