// Who works with the page. What the role of that member cannot do is not offered; the server refuses it anyway.
import type { Team } from "./api";

export const who = $state({
  team: "",
  teamId: "",
  member: "",
  role: "viewer" as Team["role"],
  scopes: [] as Team["scopes"],
  downloads: "allowed" as Team["downloads"],
  others: [] as Team["others"],
});

export function became(team: Team) {
  const { id: teamId, name, member, role, scopes, downloads, others } = team;
  Object.assign(who, { team: name, teamId, member, role, scopes, downloads, others });
}

export const may = (scope: Team["scopes"][number]) => who.scopes.includes(scope);
