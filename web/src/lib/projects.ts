/** Labels of folders: the last part of the path, and as many before it as tell two folders apart. */

export function labelProjects(projects: readonly string[]): Map<string, string> {
  const parts = new Map(projects.map((project) => [project, project.split(/[/\\]/).filter(Boolean)]));
  const labels = new Map<string, string>();
  let pending = [...new Set(projects)];
  for (let length = 1; pending.length; length += 1) {
    const byLabel = new Map<string, string[]>();
    for (const project of pending) {
      const label = parts.get(project)?.slice(-length).join("/") || project;
      byLabel.set(label, [...(byLabel.get(label) ?? []), project]);
    }
    pending = [];
    for (const [label, group] of byLabel) {
      const [first = ""] = group;
      if (group.length === 1) labels.set(first, label);
      else if (group.every((project) => (parts.get(project)?.length ?? 0) <= length)) for (const project of group) labels.set(project, project);
      else pending.push(...group);
    }
  }
  return labels;
}
