// Small helpers that several packages need. The build of each package copies them into its output.
export { abortReason, fulfilledWithin, LONGEST_MS, untilAborted, within } from './abort.ts'
export { BoundedMap } from './bounded-map.ts'
export { compareBytes, decodeText, fromByteOrder, readAtMost, toByteOrder } from './bytes.ts'
export { canonicalJson } from './canonical-json.ts'
export * as check from './check.ts'
export { assertOptions, shown } from './check.ts'
export { CodedError, splitErrorLink, withErrorLink, withoutErrorLink } from './error-link.ts'
export { longestTextFor, waysToMatch } from './expression-cost.ts'
export { FailureStreak } from './failure-streak.ts'
export { isObject, isRecord } from './is-record.ts'
export {
  currentSchema,
  definedFields,
  documentOf,
  isPattern,
  mapSubschemas,
  pointerOf,
  SchemaDocument,
} from './json-schema.ts'
export { legible, legibleSchema, mapSchemas } from './legible.ts'
export { LineBuffer } from './line-buffer.ts'
export { Listeners } from './listeners.ts'
export { isLoopback } from './loopback.ts'
export { LEFT_OUT_META_KEY, TASKS_EXTENSION, withTraceContext } from './mcp-meta.ts'
export { nearestWord } from './nearest-word.ts'
export { objectShapeOf } from './object-shape.ts'
export { readPackageVersion } from './package-version.ts'
export { isPublicAddress } from './public-address.ts'
export { removeFrom } from './remove-from.ts'
export { assertRuntime, runtimeProblem } from './runtime.ts'
export {
  FILLED_FORMATS,
  fittedValue,
  isBlank,
  jsonTypeOf,
  literalFrom,
  stepOf,
  takesText,
  typesOf,
} from './schema-fitting.ts'
export { scopeKey } from './scope-key.ts'
export { isNewerRecord, isSessionId, isVisibleAscii, shortSessionId } from './session-id.ts'
export { fileSystem, whileBusy } from './shared-files.ts'
export { sharedStorage } from './shared-storage.ts'
export {
  columnNumber,
  columnText,
  openSqliteFile,
  SqliteFileError,
  toSqliteFileError,
} from './sqlite-file.ts'
export type { Check, Checks } from './check.ts'
export type { TraceContext } from './mcp-meta.ts'
export type { JsonType, PartSchema, Reading } from './schema-fitting.ts'
export type { SqliteFileErrorCode, SqliteFileFormat, SqliteFileUse } from './sqlite-file.ts'
