/** Why a schema cannot be used, in words. Ends the search: `structureDefectOf()` catches it. */
export class FoundDefect extends Error {
  override readonly name = 'FoundDefect'
}
