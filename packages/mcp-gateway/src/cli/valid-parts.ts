// The valid parts of a configuration with mistakes, so that `check` can go on and find more of them.
import { isRecord } from '@x/internal'
import type { z } from 'zod'

import {
  pathText,
  problemsOf,
  type SettingPath,
  type SettingProblem,
} from '../gateway/setting-paths.ts'
import type { FileSettings } from './file-settings.ts'

/** Each round removes what the one before showed. A file has fewer levels. */
const MAX_ROUNDS = 20

/** A configuration without its wrong parts, which have their defaults. */
export interface ValidParts {
  readonly config: FileSettings
  /** Mistakes that only showed in the valid parts. */
  readonly more: readonly SettingProblem[]
  /** Returns the place in the file of a place in `config`, where items of lists may be missing. */
  readonly originalOf: (path: SettingPath) => SettingPath
  /** Places that were removed: what depends on them cannot be judged. */
  readonly removed: readonly SettingPath[]
}

/**
 * Removes wrong parts until the rest is valid.
 *
 * @param wrong places of the mistakes that are known
 * @returns `undefined` if that is not possible, for example if the whole is a list
 */
export function validPartsOf(
  value: unknown,
  schema: z.ZodType<FileSettings>,
  wrong: readonly SettingPath[],
): ValidParts | undefined {
  if (!isRecord(value)) return undefined
  const rest = new Rest(value)
  const more: SettingProblem[] = []
  for (const path of wrong) rest.remove(path)
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const result = schema.safeParse(rest.value, { jitless: true })
    if (result.success) {
      const originalOf = (path: SettingPath): SettingPath => rest.originalOf(path)
      return { config: result.data, more, originalOf, removed: rest.removed }
    }
    const problems = result.error.issues.flatMap((issue) => problemsOf(schema, issue, rest.value))
    const found = problems.map((each) => ({ ...each, path: rest.originalOf(each.path) }))
    // If a section lost a part, a contradiction may come from its defaults only.
    const incomplete = new Set(rest.removed.map(([first]) => first))
    more.push(...found.filter(({ path: [first] }) => !incomplete.has(first)))
    for (const { path, type } of found) {
      rest.remove(type === 'missing' ? path.slice(0, -1) : path)
    }
  }
  return undefined
}

/** What is left of a value. Paths are those of the whole value. */
class Rest {
  readonly value: Record<string, unknown>
  readonly removed: SettingPath[] = []
  /** Original indexes of the items that are left, by the path of their list. */
  readonly #kept = new Map<string, number[]>()

  constructor(value: Readonly<Record<string, unknown>>) {
    this.value = structuredClone(value)
  }

  remove(path: SettingPath): void {
    const last = path.at(-1)
    if (last === undefined) return
    this.removed.push(path)
    let within: unknown = this.value
    for (const [depth, part] of path.slice(0, -1).entries()) {
      within = Array.isArray(within)
        ? within[this.#keptAt(path.slice(0, depth), within).indexOf(Number(part))]
        : isRecord(within) && within[part]
    }
    if (Array.isArray(within)) {
      const kept = this.#keptAt(path.slice(0, -1), within)
      const at = kept.indexOf(Number(last))
      if (at < 0) return
      within.splice(at, 1)
      kept.splice(at, 1)
    } else if (isRecord(within)) {
      Reflect.deleteProperty(within, last)
    }
  }

  originalOf(path: SettingPath): SettingPath {
    const original: (string | number)[] = []
    for (const part of path) {
      const kept = typeof part === 'number' ? this.#kept.get(pathText(original)) : undefined
      original.push(kept?.[Number(part)] ?? part)
    }
    return original
  }

  #keptAt(path: SettingPath, list: readonly unknown[]): number[] {
    const key = pathText(path)
    const kept = this.#kept.get(key) ?? [...list.keys()]
    this.#kept.set(key, kept)
    return kept
  }
}
