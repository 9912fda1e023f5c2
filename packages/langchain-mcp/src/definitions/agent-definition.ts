import { withErrorLink } from '@x/internal'
import * as z from 'zod'
import { placedPropertyFrom } from './argument-property.ts'
import { camelCased } from '../options.ts'
import type { JsonSchema, McpServerLabel, ToolDefinition } from '../tool-source.ts'

/**
 * Source of names, descriptions and schemas. `'cached'`: the stored definitions, without a request.
 * `'dynamic'`: the server's list.
 */
export type DiscoveryMode =
  | {
      readonly type: 'cached'
      /** Compares a definition with the server's before each call. @default true */
      readonly refreshSchemaBeforeCall?: boolean | undefined
    }
  | {
      readonly type: 'dynamic'
      /** Uses all tools of the server, not only those that the definition names. @default false */
      readonly allowAll?: boolean | undefined
    }

/** A tool that is stored in an MCP resource. */
export interface AgentToolDefinition extends ToolDefinition {
  /** Argument properties by JSON path: values that the agent designer fixes. @default {} */
  readonly argumentProperties?: Readonly<Record<string, unknown>> | undefined
  readonly [key: string]: unknown
}

/** An MCP server that an agent uses. `slug` or `name` identifies it; `slug` is more stable. */
export interface McpResourceDefinition extends McpServerLabel {
  /** `mcp`, in any case. */
  readonly $resourceType: string
  /** Name for people. The directory looks it up without a slug. */
  readonly name: string
  readonly description?: string | undefined
  /** `false`: no tools, and no client. @default true */
  readonly isEnabled?: boolean | undefined
  /** The stored tools. Required unless all tools of the server are allowed. */
  readonly availableTools?: readonly AgentToolDefinition[] | undefined
  readonly toolsConfiguration?:
    | { readonly discoveryMode?: DiscoveryMode | undefined; readonly [key: string]: unknown }
    | undefined
  /** @deprecated Use `toolsConfiguration.discoveryMode`, which overrides it. */
  readonly dynamicTools?: 'none' | 'schema' | 'all' | undefined
  readonly [key: string]: unknown
}

/** A resource of another type. It is kept unchanged. */
export interface OtherResourceDefinition {
  readonly $resourceType?: unknown
  readonly [key: string]: unknown
}

/** The model of an agent, and its settings. */
interface AgentSettings {
  readonly engine?: string | undefined
  readonly model?: string | undefined
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  /**
   * Limit of turns in the agent's loop. This package does not apply it: the program that builds the agent
   * does, and should use 25 if the field is absent.
   */
  readonly maxIterations?: number | undefined
  readonly [key: string]: unknown
}

/** The contents of `agent.json`. Unknown fields are kept. */
export interface AgentDefinition {
  readonly id?: string | undefined
  readonly name?: string | undefined
  /** @default '1.0.0' */
  readonly version?: string | undefined
  readonly inputSchema?: JsonSchema | undefined
  readonly outputSchema?: JsonSchema | undefined
  readonly messages?: readonly AgentMessage[] | undefined
  readonly resources?: readonly (McpResourceDefinition | OtherResourceDefinition)[] | undefined
  readonly features?: readonly unknown[] | undefined
  readonly settings?: AgentSettings | undefined
  readonly metadata?: AgentMetadata | undefined
  readonly guardrails?: unknown
  readonly [key: string]: unknown
}

/** A message at the start of the conversation. */
interface AgentMessage {
  readonly role: string
  readonly content: string
  readonly [key: string]: unknown
}

interface AgentMetadata {
  readonly isConversational?: boolean | undefined
  readonly storageVersion?: string | undefined
  readonly [key: string]: unknown
}

/**
 * Returns true for an MCP server.
 *
 * @example
 * ```ts
 * import { agentDefinitionFrom, isMcpResource } from '@x/langchain-mcp'
 *
 * const resource = { $resourceType: 'mcp', name: 'Shop', slug: 'shop' }
 * const agent = agentDefinitionFrom({ resources: [resource] })
 * const names = agent.resources?.filter(isMcpResource).map(({ name }) => name)
 * ```
 */
export function isMcpResource(
  resource: McpResourceDefinition | OtherResourceDefinition,
): resource is McpResourceDefinition {
  const type = resource.$resourceType
  return typeof type === 'string' && type.toLowerCase() === 'mcp'
}

/** Returns the discovery mode of a resource. Reads the deprecated `dynamicTools` without a newer field. */
export function discoveryModeOf(resource: McpResourceDefinition): DiscoveryMode {
  const { toolsConfiguration, dynamicTools = 'none' } = resource
  const mode = toolsConfiguration?.discoveryMode
  if (mode !== undefined) return mode
  return dynamicTools === 'none'
    ? { type: 'cached' }
    : { type: 'dynamic', allowAll: dynamicTools === 'all' }
}

/** An agent definition does not fit its schema. The message is one line: source, field, expected value. */
export class AgentDefinitionError extends Error {
  override readonly name = 'AgentDefinitionError'
  readonly code = 'INVALID_DEFINITION'
  /** The first invalid field, as a JSON path: `$.resources[0].slug`. */
  readonly path: string
  /** Name of the file or value that was read. */
  readonly source: string

  constructor(message: string, about: Pick<AgentDefinitionError, 'path' | 'source' | 'cause'>) {
    super(withErrorLink(message, 'INVALID_DEFINITION'), { cause: about.cause })
    this.path = about.path
    this.source = about.source
  }
}

const text = optional(z.string())
const identifier = optional(z.string().min(1, 'expected a string that is not empty'))
const flag = optional(z.boolean())
const count = optional(z.number())
const jsonObject = z.record(z.string(), z.unknown())

const argumentPropertiesSchema = jsonObject.superRefine((properties, context) => {
  for (const [path, value] of Object.entries(properties)) {
    const placed = placedPropertyFrom(path, value)
    if (typeof placed === 'string') {
      context.addIssue({ code: 'custom', path: [path], message: placed })
    }
  }
})

const toolSchema: z.ZodType<AgentToolDefinition> = objectOf({
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
  argumentProperties: withDefault(argumentPropertiesSchema, {}),
  _meta: optional(jsonObject),
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

/** Checks MCP resources, and passes other resources unchanged. */
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
 * The format of `agent.json`. Unknown fields and resources of other types are kept, and names may be in
 * snake_case.
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

/**
 * Checks an agent definition and fills in its defaults. Does not change the value.
 *
 * @param options `source`: the name of the file in errors. The default is 'agent definition'
 * @throws {AgentDefinitionError} with the path of the first invalid field
 * @example
 * ```ts
 * import { readFile } from 'node:fs/promises'
 * import { agentDefinitionFrom, createMcpToolsFromAgent } from '@x/langchain-mcp'
 *
 * const source = 'agent.json'
 * const agent = agentDefinitionFrom(JSON.parse(await readFile(source, 'utf8')), { source })
 * const { tools } = await createMcpToolsFromAgent(agent)
 * ```
 */
export function agentDefinitionFrom(
  value: unknown,
  { source = 'agent definition' }: { readonly source?: string | undefined } = {},
): AgentDefinition {
  return checked(agentDefinitionSchema, value, source)
}

/**
 * Checks one MCP resource of an agent definition.
 *
 * @throws {AgentDefinitionError} with the path of the first invalid field
 */
export function mcpResourceFrom(value: unknown): McpResourceDefinition {
  return checked(mcpResourceSchema, value, 'MCP resource')
}

function checked<T>(schema: z.ZodType<T>, value: unknown, source: string): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue, ...others] = result.error.issues
  const path = jsonPathOf(issue?.path ?? [])
  const expectation = expectationOf(issue?.message ?? 'does not fit')
  const more = others.length > 0 ? ` (${others.length} more after this one)` : ''
  throw new AgentDefinitionError(
    `${source}: ${path}: ${expectation}. Correct this field and try again.${more}`,
    { path, source, cause: result.error },
  )
}

/** Replaces the library's terms with those of JSON. */
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

/** Returns the schema of an object with these fields, in either spelling, and any others. */
function objectOf<Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
): z.ZodPreprocess<z.ZodObject<Shape, z.core.$loose>> {
  return z.preprocess(camelCased(Object.keys(shape)), z.looseObject(shape))
}

/** A field that may be absent or `null`, which Python writes. */
function optional<Schema extends z.ZodType>(
  schema: Schema,
): z.ZodPreprocess<z.ZodOptional<Schema>> {
  return z.preprocess((value) => value ?? undefined, z.optional(schema))
}

function withDefault<T>(schema: z.ZodType<T>, value: T): z.ZodType<T> {
  return z.preprocess((given) => given ?? value, schema)
}
