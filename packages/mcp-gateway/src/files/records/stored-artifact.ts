import { z } from 'zod'
import type { ScopeOwner } from '../artifact-caller.ts'

/** All that is kept of a name: one value, so that versions are given out and taken back in one step. */
export interface StoredName {
  /** Under what it is listed. */
  readonly list: string
  /** As the agent or the client wrote it. */
  readonly title: string
  readonly next: number
  /** Its entry in the list of its owner. */
  readonly listedAs: string
  /** From the oldest to the latest. */
  readonly versions: readonly StoredVersion[]
}

export interface StoredVersion {
  readonly version: number
  /** The hold on its bytes. */
  readonly hold: string
  readonly blob: string
  readonly sha256: string
  readonly size: number
  readonly mimeType: string
  readonly account: string
  readonly principal: string
  readonly runId?: string | undefined
  readonly createdAt: number
  readonly expiresAt: number
}

const StoredVersion: z.ZodType<StoredVersion> = z.object({
  version: z.int(),
  hold: z.string(),
  blob: z.string(),
  sha256: z.string(),
  size: z.int(),
  mimeType: z.string(),
  account: z.string(),
  principal: z.string(),
  runId: z.string().optional(),
  createdAt: z.number(),
  expiresAt: z.number(),
})

const StoredName: z.ZodType<StoredName> = z.object({
  list: z.string(),
  title: z.string(),
  next: z.int(),
  listedAs: z.string(),
  versions: z.array(StoredVersion),
})

const StoredOwner: z.ZodType<ScopeOwner> = z.union([
  z.object({ kind: z.literal('principal'), key: z.string() }),
  z.object({ kind: z.literal('session') }),
  z.object({ kind: z.literal('holder') }),
])

/** Where a version is, and what goes with it: all that is needed to put right what was left half done. */
export interface StoredPlace {
  readonly scope: string
  readonly name: string
  readonly hold: string
  readonly blob: string
  readonly sha256: string
  readonly account: string
}

const StoredPlace: z.ZodType<StoredPlace> = z.object({
  scope: z.string(),
  name: z.string(),
  hold: z.string(),
  blob: z.string(),
  sha256: z.string(),
  account: z.string(),
})

/** `undefined`: there is none, or nothing that this version of the gateway understands. */
export function storedNameFrom(value: unknown): StoredName | undefined {
  return StoredName.safeParse(value).data
}

export function storedOwnerFrom(value: unknown): ScopeOwner | undefined {
  return StoredOwner.safeParse(value).data
}

export function storedPlaceFrom(value: unknown): StoredPlace | undefined {
  return StoredPlace.safeParse(value).data
}
