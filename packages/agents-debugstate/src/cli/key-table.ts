import type { KeyList, ListedKey } from '../server/debug-state-handler.ts'
import { ageText, bytesText } from './amount.ts'
import type { Terminal } from './terminal.ts'

/** A list for people on a terminal: aligned, with ages. */
export function writeKeyTable({ agentId, keys, truncated }: KeyList, terminal: Terminal): void {
  if (keys.length === 0) {
    terminal.line(`Nothing is stored for ${agentId}.`)
    return
  }
  const rows = keys.map((entry) => [terminal.harmless(entry.key), ...amountsOf(entry)] as const)
  const all = [HEAD, ...rows]
  const [keyWidth, ...widths] = HEAD.map((_, column) =>
    Math.max(...all.map((row) => row[column]?.length ?? 0)),
  )
  for (const row of all) {
    const [key = '', ...amounts] = row
    const cells = amounts.map((amount, index) => amount.padStart(widths[index] ?? 0))
    const line = [key.padEnd(keyWidth ?? 0), ...cells].join('  ')
    terminal.line(row === HEAD ? terminal.paint('dim', line) : line)
  }
  if (truncated) terminal.line(terminal.paint('yellow', 'There are more keys than are listed.'))
}

/** A list for programs: key, bytes, time of the last write, time of the end, separated by tabs. */
export function writeKeyLines({ keys }: KeyList, terminal: Terminal): void {
  for (const { key, bytes, updatedAt, expiresAt } of keys) {
    terminal.line([key, bytes, updatedAt, expiresAt].join('\t'))
  }
}

const HEAD = ['KEY', 'SIZE', 'AGE', 'EXPIRES IN']

/** By the clock of the service alone. */
function amountsOf({ bytes, ageMs, updatedAt, expiresAt }: ListedKey): readonly string[] {
  const leftMs = Date.parse(expiresAt) - Date.parse(updatedAt) - ageMs
  return [bytesText(bytes), ageText(ageMs), ageText(leftMs)]
}
