// The one description of all settings as values: kinds, ranges, defaults, and which are secret. `createGateway`, the
// configuration file, flags, the command `check` and the generated reference use it. What each setting means is said in
// `options.ts`.
import { z } from 'zod'

import { GatewayError } from '../errors.ts'
import type { GatewaySettings, Given, ToolOverride } from '../options.ts'
import { packageVersion } from '../version.ts'
import {
  bytes,
  flag,
  matching,
  ms,
  oneOf,
  secret,
  section,
  text,
  texts,
  unset,
  url,
  whole,
} from './setting-kinds.ts'
import { pathText, problemsOf, problemText } from './setting-paths.ts'

const path: z.ZodString = matching(/^\/[\w./~-]*$/, 'a path such as /mcp')

/** A host name as requests contain it, and as `URL` reads it. */
const host = matching(
  /^(?:\[[\da-f:.]+\]|[a-z\d_-]+(?:\.[a-z\d_-]+)*)$/,
  'a host name in small letters, without port, such as agents.example',
)
/** An origin as browsers send it. `*` and the URL of a page are refused. */
const origin = matching(
  /^[a-z][a-z\d+.-]*:\/\/[^\sA-Z/?#*@]+$/,
  'the origin of a page, such as https://app.example',
)

const func = z.custom<never>((value) => typeof value === 'function')

// ---- the settings --------------------------------------------------------------------------------------------------

type Shape<T> = { readonly [Key in keyof T]-?: z.ZodType<T[Key]> }

const taskPolicy = oneOf('never', 'auto', 'always', 'required')

const override: z.ZodType<ToolOverride> = z.strictObject({
  name: text.optional(),
  title: text.optional(),
  description: text.optional(),
  examples: texts.optional(),
  timeoutMs: ms(1).optional(),
  scopes: texts.optional(),
  cache: z.strictObject({ ttlMs: whole(1), anonymous: flag.optional() }).optional(),
  hidden: flag.optional(),
  tasks: taskPolicy.optional(),
  annotations: z
    .strictObject({
      readOnlyHint: flag.optional(),
      destructiveHint: flag.optional(),
      idempotentHint: flag.optional(),
      openWorldHint: flag.optional(),
    })
    .optional(),
})

/** Each section of settings. The schema of a configuration file is made of these, too. */
export const settingsShape: Shape<GatewaySettings> = {
  server: section({
    name: text.default('Agent Gateway'),
    description: text.default('Agents over MCP'),
    version: text.default(packageVersion),
  }),
  http: section({
    host: text.default('127.0.0.1'),
    port: whole(0, 65_535).default(8000),
    path: path.default('/mcp'),
    publicUrl: unset(url),
    allowedHosts: z.array(host, { error: 'a list of host names' }).default([]),
    allowedOrigins: z.array(origin, { error: 'a list of origins' }).default([]),
    clientAddress: unset(
      z.union(
        [
          z.strictObject({
            header: matching(/^[\w-]+$/, 'the name of a header'),
            proxies: whole(1, 16).default(1),
          }),
          func,
        ],
        { error: '{ header, proxies } or a function' },
      ),
    ),
    maxBodyBytes: bytes.default(4_194_304),
    drainDelayMs: ms().default(0),
    shutdownGraceMs: ms().default(10_000),
    metricsPath: unset(path),
    insecure: flag.default(false),
  }),
  sessions: section({
    idleTtlMs: whole(1).default(1_800_000),
    absoluteTtlMs: whole(1).default(43_200_000),
    max: whole(1).default(10_000),
    maxPerPrincipal: whole(1).default(100),
  }),
  tools: section({
    include: texts.default([]),
    exclude: texts.default([]),
    overrides: z.record(z.string(), override, { error: 'overrides by "agent/skill"' }).default({}),
    parameters: oneOf('message', 'schema', 'auto').default('auto'),
    schemaFromExamples: flag.default(false),
    tasks: taskPolicy.default('auto'),
    prompts: flag.default(true),
  }),
  runs: section({
    mode: oneOf('run', 'thread').default('run'),
    timeoutMs: ms(1).default(300_000),
    maxConcurrent: whole(1).default(64),
    maxConcurrentPerPrincipal: whole(1).default(8),
    needsInputTtlMs: whole(1).default(3_600_000),
    repeatTtlMs: whole(1).default(86_400_000),
  }),
  tasks: section({
    ttlMs: ms(1).default(86_400_000),
    maxPerPrincipal: whole(0).default(1000),
  }),
  streaming: section({
    enabled: flag.default(true),
    channel: oneOf('progress', 'log', 'both').default('progress'),
    heartbeatMs: ms().default(15_000),
  }),
  inline: section({
    imageMaxBytes: whole(0).default(5_242_880),
    audioMaxBytes: whole(0).default(10_485_760),
    textMaxBytes: whole(0).default(1_048_576),
    binaryMaxBytes: whole(0).default(524_288),
    resultMaxBytes: whole(16_384).default(1_000_000),
  }),
  artifacts: section({
    enabled: flag.default(true),
    uriScheme: matching(/^[a-z][a-z0-9+.-]*$/, 'a URI scheme such as artifact').default('artifact'),
    ttlMs: whole(1).default(86_400_000),
    maxBytes: bytes.default(104_857_600),
    quota: bytes.default(1_073_741_824),
    upload: flag.default(true),
  }),
  requestsPerMinute: whole(0).default(600),
  stateKey: secret(
    unset(
      z.union([matching(/^.{32,}$/s, 'text of 32 bytes or more'), z.instanceof(Uint8Array)], {
        error: 'text of 32 bytes or more',
      }),
    ),
  ),
}

/** All of them. */
const settingsSchema: z.ZodType<GatewaySettings> = z.strictObject(settingsShape)

// ---- for createGateway() ----------------------------------------------------------------------------------------

/**
 * Returns all settings of a gateway: the given ones, and defaults for the rest.
 *
 * @param owner function that takes the settings, for messages
 * @throws GatewayError `CONFIG` with the path of the first setting that is unknown or wrong
 */
export function completeSettings(owner: string, given: Given<GatewaySettings>): GatewaySettings {
  // To compile the parser takes longer than to use it once.
  const result = settingsSchema.safeParse(given, { jitless: true })
  if (result.success) return result.data
  const problems = result.error.issues.flatMap((issue) => problemsOf(settingsSchema, issue, given))
  // A misspelled setting explains why another one is missing.
  const problem = problems.find(({ type }) => type === 'unknown') ?? problems[0]
  if (problem === undefined) throw result.error
  throw new GatewayError('CONFIG', `${owner}: ${problemText(problem, 'option')}`, {
    path: pathText(problem.path),
  })
}
