// Sections of a configuration file that packages define: kinds of sources, stores and authenticators.
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

import { isRecord } from '@x/internal'
import { toLine } from '@x/internal/command-line'
import type { z } from 'zod'

import type { AgentSource } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'
import type { Authenticator } from '../http/auth/authenticator.ts'
import type { RunEngine } from '../runs/engine.ts'
import type { GatewayStore } from '../store/gateway-store.ts'

/** Context of a section. */
export interface SectionContext {
  /** Folder of the configuration file. Relative paths start at it. */
  readonly folder: string
  readonly onWarning: (message: string, cause?: unknown) => void
}

export interface SourceContext extends Pick<SectionContext, 'folder'> {
  /** True if several processes use the store of the gateway. */
  readonly isShared: boolean
}

export interface AuthContext extends SectionContext {
  readonly store: GatewayStore
  /** URL of the MCP endpoint as clients see it. */
  readonly resource: string
  /** Claim that names the caller. */
  readonly principalClaim: string
  /** Scopes that clients should ask for. */
  readonly scopesSupported: readonly string[]
}

/**
 * A section of a configuration file. A package that adds a source of agents, a store or an authenticator to the
 * command `mcp-gateway` exports one as `fileSection`.
 */
export interface FileSection<Made = unknown, Context = never> {
  /** Settings of the section, with defaults. The command checks them, and names the line of each mistake. */
  readonly schema: z.ZodObject
  /**
   * Makes the object that the settings describe.
   *
   * @param settings what the schema accepted
   * @throws GatewayError `CONFIG`
   */
  create(settings: unknown, context: Context): Made | Promise<Made>
}

export type SourceSection = FileSection<AgentSource, SourceContext>
export interface StoreSection extends FileSection<GatewayStore, SectionContext> {
  /**
   * Makes the engine that executes tasks in all processes that share the store. `create` gets the same settings.
   *
   * @returns `undefined` if the settings ask for none
   */
  createEngine?(
    settings: unknown,
    context: SectionContext,
  ): (RunEngine & AsyncDisposable) | undefined
}
export type AuthSection = FileSection<Authenticator, AuthContext>

/** Sections by the word that stands for them in a file. */
export interface FileSections {
  /** By `sources[].type`. */
  readonly sources: Record<string, SourceSection>
  /** `redis`, which a `store.url` needs. */
  readonly store: Record<string, StoreSection>
  /** By the key of the section in `auth`. */
  readonly auth: Record<string, AuthSection>
}

/** Packages that have such sections. */
export const PACKAGES: Readonly<Record<keyof FileSections, Readonly<Record<string, string>>>> = {
  sources: { a2a: '@x/mcp-gateway-a2a' },
  store: { redis: '@x/mcp-gateway-redis' },
  auth: { facade: '@x/mcp-gateway-oauth' },
}

/**
 * Imports the section of a package. The package may be installed beside this one, or beside the configuration file.
 *
 * @param use the setting that needs it
 * @throws GatewayError `CONFIG` if the package is not installed, or has no section
 */
export async function importSection(
  name: string,
  { folder, use }: { readonly folder: string; readonly use: string },
): Promise<SourceSection & StoreSection & AuthSection> {
  const { fileSection } = await importPackage(name, folder).catch((cause: unknown) => {
    const problem = isMissing(cause, name)
      ? `which is not installed: npm install ${name}`
      : `which cannot be loaded: ${toLine(cause)}`
    throw new GatewayError('CONFIG', `${use} needs the package ${name}, ${problem}`, { cause })
  })
  if (isSection(fileSection)) return fileSection
  const message = `${use} needs another version of the package ${name}: npm install ${name}@latest`
  throw new GatewayError('CONFIG', message)
}

async function importPackage(
  name: string,
  folder: string,
): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await import(name)
  } catch (error) {
    if (!isMissing(error, name)) throw error
    const file = createRequire(resolve(folder, 'file.js')).resolve(name)
    return import(pathToFileURL(file).href)
  }
}

function isSection(value: unknown): value is SourceSection & StoreSection & AuthSection {
  return isRecord(value) && isRecord(value['schema']) && typeof value['create'] === 'function'
}

/** Returns `true` if this package is missing, and `false` if a package that it imports is missing. */
function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false
  const isAbsent = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND'
  return isAbsent && error.message.includes(`'${name}'`)
}
