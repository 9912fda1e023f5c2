// Checks the options of `createGateway`: settings by their schema, objects of the program by what they can do.
import { check, isRecord, type Check, type Checks } from '@x/internal'

import { z } from 'zod'

import { assertGatewayOptions, GatewayError } from '../errors.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import {
  settingsShape,
  type CheckedOptions,
  type GatewayObjects,
  type GatewayOptions,
  type GatewaySettings,
  type Given,
  type ListenOptions,
} from '../options.ts'
import type { StdioOptions } from '../mcp/stdio.ts'
import { graphChecks } from '../agents/langgraph/definition.ts'
import { knownKeys, pathText, problemsOf, problemText } from './setting-paths.ts'

const { flag, func, methods, number, section, text } = check

const observerChecks: Checks<GatewayObserver> = {
  callStarted: func,
  activate: func,
  callEnded: func,
  requestRefused: func,
  fileTransferred: func,
  runEvent: func,
  sessionOpened: func,
  sessionClosed: func,
  warned: func,
}

const objectChecks: Checks<GatewayObjects> = {
  agents: check.mapOf(section(graphChecks)),
  sources: check.listOf({
    ...methods('start', 'run', 'close'),
    takes: 'a source, such as langGraphSource(graphs)',
  }),
  auth: { ...methods('authenticate'), takes: 'an authenticator, such as bearerAuth(token)' },
  credentials: {
    ...methods('credentialsFor'),
    takes: 'a provider of credentials, such as tokenExchange(options)',
  },
  store: {
    takes: 'a store, such as new MemoryGatewayStore()',
    accepts: (value) => isRecord(value) && isRecord(value['records']),
  },
  engine: { ...methods('submit', 'work'), takes: 'an engine, such as bullmqEngine()' },
  log: {
    takes: 'a logger, or false',
    accepts: (value) => value === false || methods('warn', 'error').accepts(value),
  },
  observer: section(observerChecks),
  clientAddress: func,
  clock: methods('now', 'after'),
}

/** The schema checks these. */
const settingChecks: Readonly<Record<string, Check>> = Object.fromEntries(
  Object.entries(settingsShape).map(([name, schema]) => [
    name,
    {
      ...check.anything,
      // Read for an error only: it takes time.
      get keys() {
        return knownKeys(schema, [])
      },
    },
  ]),
)

/** Returns options with a value for every setting. @throws GatewayError `CONFIG` with the path of a wrong option */
export function checkedOptions(owner: string, options: GatewayOptions): CheckedOptions {
  assertGatewayOptions(owner, options, { ...objectChecks, ...settingChecks })
  if (options.credentials !== undefined && options.auth === undefined) {
    const why = `${owner}: option "auth" is missing: "credentials" are made from the tokens of callers`
    throw new GatewayError('CONFIG', why, { path: 'auth' })
  }
  const entries = Object.entries(options)
  const objects = entries.filter(([name]) => Object.hasOwn(objectChecks, name))
  const settings = entries.filter(([name]) => Object.hasOwn(settingChecks, name))
  return {
    ...Object.fromEntries(objects),
    ...completeSettings(owner, Object.fromEntries(settings)),
  }
}

export const listenChecks: Checks<ListenOptions> = {
  host: text,
  port: number(),
  insecure: flag,
  probesOnly: flag,
}

export const stdioChecks: Checks<StdioOptions> = {
  input: { ...methods('on', 'read'), takes: 'a readable stream' },
  output: { ...methods('on', 'write'), takes: 'a writable stream' },
}

const settingsSchema: z.ZodType<GatewaySettings> = z.strictObject(settingsShape)

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
