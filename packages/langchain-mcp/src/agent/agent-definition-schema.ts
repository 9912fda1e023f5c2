import * as z from 'zod'
import {
  discoveryModeOf,
  isMcpResource,
  type AgentDefinition,
  type AgentToolDefinition,
  type DiscoveryMode,
  type McpResourceDefinition,
  type OtherResourceDefinition,
} from './agent-definition.ts'
import { AgentDefinitionError } from './agent-definition-error.ts'
import { camelCased } from './camel-case-keys.ts'
import { plainToolFrom } from '../catalogue/plain-tool.ts'

const text = optional(z.string())
const identifier = optional(z.string().min(1, 'expected a string that is not empty'))
const flag = optional(z.boolean())
const count = optional(z.number())
const jsonObject = z.record(z.string(), z.unknown())

const anyToolSchema: z.ZodType<AgentToolDefinition> = objectOf({
  name: z.string(),
  title: text,
  description: text,
  inputSchema: optional(jsonObject),
  outputSchema: optional(jsonObject),
  annotations: optional(
    z.looseObject({
      title: text,
      readOnlyHint: flag,
      destructiveHint: flag,
      idempotentHint: flag,
      openWorldHint: flag,
    }),
  ),
  argumentProperties: withDefault(jsonObject, {}),
  _meta: optional(jsonObject),
})

/** A definition may hold hundreds of tools, and nearly all of them are written as this package writes them. */
const toolSchema: z.ZodType<AgentToolDefinition> = z.unknown().transform((value, context) => {
  const plain = plainToolFrom(value)
  if (plain !== undefined) return plain
  const parsed = anyToolSchema.safeParse(value)
  if (parsed.success) return parsed.data
  for (const { path, message } of parsed.error.issues) {
    context.addIssue({ code: 'custom', path, message })
  }
  return z.NEVER
})

const discoveryModeSchema: z.ZodType<DiscoveryMode> = z.preprocess(
  camelCased(['refreshSchemaBeforeCall', 'allowAll']),
  z.discriminatedUnion('type', [
    z.looseObject({
      type: z.literal('cached'),
      refreshSchemaBeforeCall: withDefault(z.boolean(), true),
    }),
    z.looseObject({ type: z.literal('dynamic'), allowAll: withDefault(z.boolean(), false) }),
  ]),
)

/** One MCP server of an agent: a resource with `$resourceType: 'mcp'`. */
const mcpResourceSchema: z.ZodType<McpResourceDefinition> = objectOf({
  $resourceType: z.string().refine((type) => type.toLowerCase() === 'mcp', 'expected "mcp"'),
  name: z.string().min(1, 'expected a string that is not empty'),
  slug: identifier,
  folderPath: text,
  description: text,
  isEnabled: withDefault(z.boolean(), true),
  availableTools: optional(z.array(toolSchema)),
  toolsConfiguration: optional(objectOf({ discoveryMode: optional(discoveryModeSchema) })),
  dynamicTools: optional(z.enum(['none', 'schema', 'all'])),
}).superRefine((resource, context) => {
  const mode = discoveryModeOf(resource)
  const needsSnapshot = mode.type === 'cached' || mode.allowAll !== true
  if (needsSnapshot && resource.availableTools === undefined) {
    context.addIssue({
      code: 'custom',
      path: ['availableTools'],
      message: 'expected an array with the tools of this server',
    })
  }
})

/** An MCP resource is checked, whatever else there is passes as it is. */
const resourceSchema: z.ZodType<McpResourceDefinition | OtherResourceDefinition> = z
  .preprocess(camelCased(['$resourceType']), z.looseObject({}))
  .transform((resource, context) => {
    if (!isMcpResource(resource)) return resource
    const parsed = mcpResourceSchema.safeParse(resource)
    if (parsed.success) return parsed.data
    for (const { path, message } of parsed.error.issues) {
      context.addIssue({ code: 'custom', path, message })
    }
    return z.NEVER
  })

/**
 * The format of `agent.json`. Fields that it does not name are kept, resources of other kinds pass
 * unread, and names may be spelt in snake_case.
 */
export const agentDefinitionSchema: z.ZodType<AgentDefinition> = objectOf({
  id: text,
  name: text,
  version: withDefault(z.string(), '1.0.0'),
  inputSchema: optional(jsonObject),
  outputSchema: optional(jsonObject),
  messages: withDefault(z.array(z.looseObject({ role: z.string(), content: z.string() })), []),
  resources: withDefault(z.array(resourceSchema), []),
  features: withDefault(z.array(z.unknown()), []),
  settings: optional(
    objectOf({
      engine: text,
      model: text,
      maxTokens: count,
      temperature: count,
      maxIterations: optional(z.number().int().positive()),
    }),
  ),
  metadata: optional(objectOf({ isConversational: flag, storageVersion: text })),
  guardrails: optional(z.unknown()),
})

export interface AgentDefinitionFromOptions {
  /** Named in errors: the file that was read. @default 'agent definition' */
  readonly source?: string | undefined
}

/**
 * Checks an agent definition and fills in its defaults. The value itself is not changed.
 *
 * @throws {AgentDefinitionError} with the path of the first field that is wrong
 */
export function agentDefinitionFrom(
  value: unknown,
  options: AgentDefinitionFromOptions = {},
): AgentDefinition {
  return checked(agentDefinitionSchema, value, options.source ?? 'agent definition')
}

/**
 * Checks one MCP resource of an agent definition.
 *
 * @throws {AgentDefinitionError} with the path of the first field that is wrong
 */
export function mcpResourceFrom(
  value: unknown,
  options: AgentDefinitionFromOptions = {},
): McpResourceDefinition {
  return checked(mcpResourceSchema, value, options.source ?? 'MCP resource')
}

function checked<T>(schema: z.ZodType<T>, value: unknown, source: string): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue, ...others] = result.error.issues
  const path = jsonPathOf(issue?.path ?? [])
  const expectation = expectationOf(issue?.message ?? 'does not fit')
  const more = others.length > 0 ? ` (${others.length} more after this one)` : ''
  throw new AgentDefinitionError(
    'INVALID_DEFINITION',
    `${source}: ${path}: ${expectation}. Correct this field and try again.${more}`,
    { path, source, cause: result.error },
  )
}

/** The library's words, in those of someone who edits JSON. */
function expectationOf(message: string): string {
  return message
    .replace(/^Invalid \w+: /, '')
    .replace('expected record', 'expected object')
    .replace('received undefined', 'but it is missing')
}

function jsonPathOf(path: readonly PropertyKey[]): string {
  const steps = path.map((step) => {
    if (typeof step === 'number') return `[${step}]`
    const name = String(step)
    return /^[A-Za-z_$][\w$]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`
  })
  return `$${steps.join('')}`
}

/** An object with these fields, in either spelling, and any others. */
function objectOf<Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
): z.ZodPreprocess<z.ZodObject<Shape, z.core.$loose>> {
  return z.preprocess(camelCased(Object.keys(shape)), z.looseObject(shape))
}

/** A field that may be absent or, as Python writes it, `null`. */
function optional<Schema extends z.ZodType>(
  schema: Schema,
): z.ZodPreprocess<z.ZodOptional<Schema>> {
  return z.preprocess((value) => value ?? undefined, z.optional(schema))
}

function withDefault<T>(schema: z.ZodType<T>, value: T): z.ZodType<T> {
  return z.preprocess((given) => given ?? value, schema)
}
