import { encodedName } from '../artifact-uri.ts'

/** The scope's owner. */
export function scopeKey(scope: string): string {
  return `artifacts/scope/${scope}`
}

/** The one scope of a principal that files go to unless told otherwise. */
export function defaultScopeKey(principal: string): string {
  return `artifacts/default/${principal}`
}

export const NAMES = 'artifacts/name/'

/** All versions of a name. Names of a scope are listed in the order of their escaped form. */
export function nameKey(scope: string, name: string): string {
  return `${NAMES}${scope}/${encodedName(name)}`
}

export interface ListedAt {
  readonly createdAt: number
  /** Of what this process has written: two files may have been made at the same time. */
  readonly count: number
  readonly id: string
}

/** Newest first, in the order of the keys. */
export function listedKey(list: string, { createdAt, count, id }: ListedAt): string {
  const [time, order] = [createdAt, count].map((n) => timeText(Number.MAX_SAFE_INTEGER - n))
  return `${listedPrefix(list)}${time}-${order}-${id}`
}

export function listedPrefix(list: string): string {
  return `artifacts/listed/${list}/`
}

export const ENDS = 'artifacts/ends/'

/** Those that end first come first. */
export function endKey(expiresAt: number, hold: string): string {
  return `${ENDS}${timeText(expiresAt)}-${hold}`
}

export const UNFINISHED = 'artifacts/unfinished/'

/** Written by somebody who has not come to the end of it. */
export function unfinishedKey(startedAt: number, hold: string): string {
  return `${UNFINISHED}${timeText(startedAt)}-${hold}`
}

/** Of a key of `ENDS` or `UNFINISHED`. */
export function timeOf(key: string): number {
  return Number(key.slice(key.lastIndexOf('/') + 1).split('-')[0])
}

function timeText(ms: number): string {
  return String(Math.floor(ms)).padStart(16, '0')
}
